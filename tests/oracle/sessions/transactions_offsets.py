"""TxnOffsetCommit: offsets of a group within a transaction, and everything that looks at them meanwhile."""

from protocol.apis import ApiKey
from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.oracle.member import Member, commit_request, stable
from tests.oracle.offsets import delete_request, fetch_request
from tests.oracle.peers import ALONE, TRANSACTIONS
from tests.oracle.play import Play, Topic
from tests.oracle.producer import NEW, OLD, Fields, Producer, stuck, transactional
from tests.oracle.session import session
from tests.oracle.sessions.deletions import delete_topic

VERSIONS = range(7)
BOTH = {"old": OLD, "new": NEW}
NOBODY = 999_999_999_999


def look(play: Play, note: str, *topics: Topic | str, version: int = 9, group: str = "") -> None:
    """Record the group's offsets: unstable and stable, requested topics and all."""
    for require_stable, what in ((False, "any"), (True, "stable")):
        for partitions, which in (({topic: [0, 1] for topic in topics}, ""), (None, ", all")):
            request = fetch_request(group or play.group, version, partitions, require_stable)
            play.ask(request, version, "admin", f"{note}, {what}{which}")


def begun(play: Play, versions: str = "old", short: str = "t") -> Producer:
    """Create a producer with an open transaction that includes the session's group, without recording."""
    mine = transactional(play, short, versions=BOTH[versions])
    with play.quietly():
        mine.add_offsets()
    return mine


@session(setup=TRANSACTIONS, version=VERSIONS, committed=(True, False))
def offsets_of_a_transaction(play: Play, version: int, committed: bool) -> None:
    orders = play.topic()
    mine = begun(play)
    look(play, "before", orders)
    mine.commit_offsets({(orders, 0): 5, (orders, 1): 0}, version=version)
    look(play, "pending", orders)
    play.describe(note="pending")
    mine.commit_offsets({(orders, 0): 6}, version=version, metadata="", note="once more")
    mine.end(committed)
    look(play, "over", orders)
    play.describe(note="over")


@session(setup=ALONE, version=VERSIONS)
def offsets_that_were_not_added(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    mine.commit_offsets({(orders, 0): 5}, version=version, note="it is empty")
    mine.describe("it is empty")
    with play.quietly():
        mine.add((orders, 0))
    mine.commit_offsets({(orders, 0): 5}, version=version, note="a partition is added")
    mine.describe("a partition is added")
    mine.end()
    mine.commit_offsets({(orders, 0): 5}, version=version, note="it is over")
    look(play, "over", orders)


@session(setup=TRANSACTIONS, version=VERSIONS)
def offsets_that_cannot_be(play: Play, version: int) -> None:
    orders = play.topic()
    mine = begun(play)
    if version < 6:
        mine.commit_offsets({("nowhere", 0): 5}, version=version, note="an unknown topic")
        mine.commit_offsets({("nowhere", 0): 5, (orders, 0): 5}, version=version, note="one is unknown")
    else:
        unknown = Topic("nowhere", b"\x01" * 16)
        mine.commit_offsets({(unknown, 0): 5}, version=version, note="an unknown topic")
        mine.commit_offsets({(unknown, 0): 5, (orders, 0): 5}, version=version, note="one is unknown")
        mine.commit_offsets({("", 0): 5}, version=version, note="the id zero")
    mine.commit_offsets({(orders, 9): 5, (orders, 1): 6}, version=version, note="an unknown partition")
    mine.commit_offsets({}, version=version, note="nothing")
    mine.commit_offsets({(orders, 0): 5}, version=version, note="no group", group_id="")
    mine.commit_offsets({(orders, 0): -1}, version=version, note="a negative offset")
    mine.commit_offsets({(orders, 0): 5}, version=version, note="long metadata", metadata="m" * 5000)
    mine.end()
    look(play, "over", orders)


@session(setup=ALONE, version=VERSIONS)
def offsets_of_producers_that_are_not_there(play: Play, version: int) -> None:
    play.require(
        ApiKey.WRITE_TXN_MARKERS, 2
    )  # a broker before 4 never ends a transaction after such a commit
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.init()
        mine.add_offsets()
    strangers: dict[str, Fields] = {
        "an unknown id": {"transactional_id": play.name("nobody")},
        "no id": {"transactional_id": ""},
        "another producer": {"producer_id": NOBODY},
        "the epoch before": {"producer_epoch": mine.epoch - 1},
        "the epoch after": {"producer_epoch": mine.epoch + 1},
    }
    for note, fields in strangers.items():
        mine.commit_offsets({(orders, 0): 5}, version=version, note=note, **fields)
    mine.commit_offsets({(orders, 0): 5}, version=version, note="its own")
    for note, fields in strangers.items():
        mine.commit_offsets({(orders, 0): 6}, version=version, note=f"{note}, once open", **fields)
    look(play, "pending", orders)
    mine.end()
    look(play, "over", orders)
    other = transactional(play, "other")
    stuck(other, orders)
    other.commit_offsets({(orders, 0): 9}, version=version, note="markers are owed")


@session(setup=TRANSACTIONS, version=(5, 6))
def offsets_that_add_their_group(play: Play, version: int) -> None:
    play.require(ApiKey.TXN_OFFSET_COMMIT, version)
    orders = play.topic()
    mine = transactional(play, versions=NEW)
    for committed in (True, False):
        mine.commit_offsets({(orders, 0): 5 + mine.epoch}, version=version)
        mine.describe("pending")
        look(play, "pending", orders)
        mine.end(committed)
        mine.describe("over")
        look(play, "over", orders)
    late: Fields = {"producer_epoch": mine.epoch - 1}
    mine.commit_offsets({(orders, 0): 50}, version=version, note="the epoch of before", **late)


def members(play: Play, state: str) -> Member:
    """The one member of the session's group in this state, or one that has left it."""
    a = Member(play, "a")
    with play.quietly():
        if state != "unknown":
            a.enter()
        if state in ("stable", "empty", "preparing"):
            a.sync()
        if state == "empty":
            a.leave()
        if state == "preparing":
            b = Member(play, "b")
            b.join()
            b.begin_join()
    return a


@session(
    setup=TRANSACTIONS,
    version=(2, 3, 5, 6),
    state=("unknown", "completing", "stable", "preparing", "empty"),
)
def offsets_of_members(play: Play, version: int, state: str) -> None:
    play.require(ApiKey.TXN_OFFSET_COMMIT, version)
    orders = play.topic()
    a = members(play, state)
    mine = begun(play)
    right = {"member_id": a.member_id, "generation_id_or_member_epoch": max(a.generation, 1)}
    for note, fields in (
        ("what it has", right),
        ("nothing given", {}),
        ("another member", right | {"member_id": "nobody"}),
        ("no member", right | {"member_id": ""}),
        ("the generation before", right | {"generation_id_or_member_epoch": max(a.generation, 1) - 1}),
        ("the generation after", right | {"generation_id_or_member_epoch": max(a.generation, 1) + 1}),
        ("no generation", right | {"generation_id_or_member_epoch": -1}),
        ("an unknown instance", right | {"group_instance_id": "nobody"}),
        ("only an instance", {"group_instance_id": "nobody"}),
        ("only a member", {"member_id": "nobody"}),
    ):
        if version < 3 and fields:
            continue
        mine.commit_offsets({(orders, 0): 5}, version=version, note=note, **fields)
    play.describe()
    mine.end()
    look(play, "over", orders)


@session(setup=TRANSACTIONS, version=(3, 5))
def offsets_of_static_members(play: Play, version: int) -> None:
    play.require(ApiKey.TXN_OFFSET_COMMIT, version)
    orders = play.topic()
    a = Member(play, "a", instance="one")
    stable(a)
    mine = begun(play)
    right = {
        "member_id": a.member_id,
        "generation_id_or_member_epoch": a.generation,
        "group_instance_id": "one",
    }
    for note, fields in (
        ("what it has", right),
        ("another member", right | {"member_id": "nobody"}),
        ("another instance", right | {"group_instance_id": "two"}),
        ("no instance", right | {"group_instance_id": None}),
        ("only its instance", {"group_instance_id": "one"}),
        ("a generation too many", right | {"generation_id_or_member_epoch": a.generation + 1}),
    ):
        mine.commit_offsets({(orders, 0): 5}, version=version, note=note, **fields)
    mine.end()


@session(
    setup=TRANSACTIONS, order=("plain first", "plain last"), committed=(True, False), versions=tuple(BOTH)
)
def plain_commits_among_those_of_a_transaction(
    play: Play, order: str, committed: bool, versions: str
) -> None:
    orders = play.topic()
    mine = begun(play, versions)
    plain = commit_request(play.group, {(orders, 0): 9})
    if order == "plain first":
        play.ask(plain, 9, note="plain")
    mine.commit_offsets({(orders, 0): 5})
    if order == "plain last":
        play.ask(plain, 9, note="plain")
    look(play, "pending", orders)
    mine.end(committed)
    look(play, "over", orders)


@session(setup=TRANSACTIONS, first=("first", "second"))
def offsets_of_two_producers(play: Play, first: str) -> None:
    orders = play.topic()
    one, two = begun(play, short="first"), begun(play, short="second")
    one.commit_offsets({(orders, 0): 5})
    two.commit_offsets({(orders, 0): 7, (orders, 1): 7})
    look(play, "both are pending", orders)
    early, late = (one, two) if first == "first" else (two, one)
    early.end()
    look(play, "one is over", orders)
    late.end()
    look(play, "both are over", orders)


@session(setup=TRANSACTIONS, what=("group", "offset", "topic"), committed=(True, False))
def what_is_deleted_while_offsets_are_pending(play: Play, what: str, committed: bool) -> None:
    orders, lines = play.topic(), play.topic("lines")
    mine = begun(play)
    play.ask(commit_request(play.group, {(orders, 0): 1, (lines, 0): 1}), 9)
    mine.commit_offsets({(orders, 0): 5, (orders, 1): 5, (lines, 0): 5})
    if what == "group":
        play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    elif what == "offset":
        play.ask(delete_request(play.group, {orders: [0, 1]}), 0)
    else:
        delete_topic(play, orders)
    look(play, "deleted", orders, lines, version=8)
    play.describe(note="deleted")
    mine.end(committed)
    look(play, "over", orders, lines, version=8)
    play.describe(note="over")


@session(setup=TRANSACTIONS, version=range(7, 11))
def stable_offsets(play: Play, version: int) -> None:
    orders = play.topic()
    mine = begun(play)
    play.ask(commit_request(play.group, {(orders, 1): 3}), 9, note="plain")
    mine.commit_offsets({(orders, 0): 5})
    look(play, "one is pending", orders, version=version)
    mine.commit_offsets({(orders, 1): 5})
    look(play, "both are pending", orders, version=version)
    mine.end(False)
    look(play, "aborted", orders, version=version)
    look(play, "a group that nobody knows", orders, version=version, group=play.name("nobody"))
