"""InitProducerId for a transactional id, in every state; finding its coordinator."""

from protocol.apis import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.oracle.peers import TRANSACTIONS
from tests.oracle.play import Play
from tests.oracle.producer import NEW, OLD, Producer, filled, stuck, transactional
from tests.oracle.session import session

VERSIONS = range(6)
FEATURES = ("transaction.version",)


@session(setup=TRANSACTIONS, version=range(3, 6))
def the_feature_of_transactions(play: Play, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="oracle", client_software_version="1")
    play.require(ApiKey.API_VERSIONS, version)
    wire = play.wire()
    wire.send(request, version)
    answer = wire.take()
    # TransactionVersion; other features are of rooms that a broker may lack.
    levels = {
        "supported": [
            [each.name, each.min_version, each.max_version]
            for each in answer.supported_features
            if each.name in FEATURES
        ],
        "finalized": [
            [each.name, each.min_version_level, each.max_version_level]
            for each in answer.finalized_features
            if each.name in FEATURES
        ],
        "has an epoch": answer.finalized_features_epoch >= 0,
    }
    play.tell(f"a ApiVersions v{version}", levels)


@session(setup=TRANSACTIONS, version=VERSIONS)
def a_transactional_id_is_initialized(play: Play, version: int) -> None:
    mine = Producer(play)
    mine.init("the first time", version)
    mine.init("the second time", version)
    mine.describe()
    mine.init("with an empty id", version, transactional_id="")
    nobody = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    play.ask(nobody, version, note="without an id, timeout 0")
    nobody = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
    play.ask(nobody, version, note="without an id, timeout -1")


@session(setup=TRANSACTIONS, version=VERSIONS)
def timeouts_of_transactions(play: Play, version: int) -> None:
    mine = Producer(play)
    for timeout_ms in (0, -1, 900_001, 2**31 - 1, 900_000, 1):
        mine.init(f"timeout {timeout_ms}", version, transaction_timeout_ms=timeout_ms)
    mine.describe("the last timeout")


@session(setup=TRANSACTIONS, version=(3, 4, 5))
def an_initialization_with_what_it_has(play: Play, version: int) -> None:
    mine = transactional(play)
    mine.init_again("as it is", version)
    mine.init_again("a retry of that", version, producer_epoch=mine.epoch - 1)
    mine.init_again("a stale epoch", version, producer_epoch=mine.epoch - 2 if mine.epoch > 1 else 7)
    mine.init_again("an epoch to come", version, producer_epoch=mine.epoch + 1)
    mine.init_again("another producer", version, producer_id=999_999_999_999)
    mine.init_again("an id without an epoch", version, producer_epoch=-1)
    mine.init_again("an epoch without an id", version, producer_id=-1)
    mine.init_again("a negative id", version, producer_id=-2)
    mine.init_again("a negative epoch", version, producer_epoch=-2)
    mine.init("without", version)
    mine.init_again("the epoch before, which nobody asked with", version, producer_epoch=mine.epoch - 1)
    mine.describe()


@session(setup=TRANSACTIONS, version=(3, 4, 5))
def an_initialization_of_an_unknown_id_with_a_producer(play: Play, version: int) -> None:
    mine = Producer(play)
    mine.init("of another", version, producer_id=999_999_999_999, producer_epoch=5)
    mine.init_again("as it is", version)


@session(setup=TRANSACTIONS, version=VERSIONS)
def an_initialization_over_an_open_transaction(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0))
    mine.init("over it", version)
    mine.settle()
    mine.describe("it is aborted")
    mine.init("again", version)
    mine.describe("and begun anew")


@session(setup=TRANSACTIONS, version=(3, 5))
def an_initialization_over_an_open_transaction_with_its_epoch(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0))
    mine.init_again("over it", version)
    mine.settle()
    mine.init_again("again", version)
    mine.init_again("as it is", version)


@session(setup=TRANSACTIONS, version=(3, 5))
def an_initialization_over_an_open_transaction_by_another(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0))
    mine.init_again("over it with another producer", version, producer_id=999_999_999_999)
    mine.describe("it is still open")
    mine.init_again("over it with an epoch to come", version, producer_epoch=mine.epoch + 5)
    mine.settle()
    mine.describe("it is aborted all the same")


@session(setup=TRANSACTIONS, version=(0, 3, 4, 5), committed=(True, False))
def an_initialization_while_markers_are_owed(play: Play, version: int, committed: bool) -> None:
    mine = transactional(play)
    stuck(mine, play.topic(), committed=committed)
    mine.init("over it", version)
    mine.init("a timeout that cannot be", version, transaction_timeout_ms=0)
    if version >= 3:
        mine.init_again("with its epoch", version)
        mine.init_again("another producer", version, producer_id=999_999_999_999)
    mine.describe()


@session(setup=TRANSACTIONS, versions=("old", "new"), committed=(True, False))
def an_initialization_after_the_end(play: Play, versions: str, committed: bool) -> None:
    orders = play.topic()
    mine = transactional(play, versions={"old": OLD, "new": NEW}[versions])
    filled(mine, (orders, 0))
    before = mine.epoch
    mine.end(committed)
    mine.init_again("with the epoch of before", producer_epoch=before)
    mine.init_again("with its epoch")
    mine.init()
    mine.describe()


@session(setup=TRANSACTIONS)
def two_transactional_ids_are_two_producers(play: Play) -> None:
    first, second = Producer(play, "first"), Producer(play, "second", by="b")
    first.init()
    second.init()
    first.init_again("with the second's id", producer_id=second.id)
    second.init()
    first.init()


@session(setup=TRANSACTIONS, version=range(1, 7))
def a_coordinator_of_transactions_is_found(play: Play, version: int) -> None:
    if version < 4:
        for short in ("t", ""):
            key = play.name(short) if short else ""
            play.ask(FindCoordinatorRequest(key=key, key_type=1), version, note=short or "no name")
        play.ask(FindCoordinatorRequest(key=play.name("t"), key_type=9), version, note="an unknown type")
    else:
        keys = [play.name("t"), "", play.name("u")]
        play.ask(FindCoordinatorRequest(coordinator_keys=keys, key_type=1), version)
        play.ask(FindCoordinatorRequest(coordinator_keys=keys, key_type=9), version, note="an unknown type")
