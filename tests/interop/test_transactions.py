"""Transactions of stock producers, as stock consumers see them."""

import signal

import pytest

from tests.interop.broker import Broker, eventually
from tests.interop.conftest import command_of
from tests.interop.driver import DRIVERS, PRODUCERS, Driver
from tests.interop.group import Group
from tests.interop.member import Board
from tests.interop.read_to_end import COMMITTED, UNCOMMITTED, read_to_end
from tests.interop.requirement import lacking
from tests.interop.transactor import Transactor

pytestmark = pytest.mark.interop
RECORDS = 20
CONFLUENT = next(driver for driver in DRIVERS if driver.name == "confluent")


def _values(*names: str) -> list[str]:
    return [f"{name}-{number}" for name in names for number in range(RECORDS)]


def _transactor(broker: Broker, board: Board, driver: Driver, topic: str, *options: str) -> Transactor:
    return Transactor(broker, driver, command_of(driver), board, f"{topic}-transactions", *options)


@pytest.mark.parametrize("driver", PRODUCERS, ids=str)
def test_only_committed_records_are_visible(broker: Broker, board: Board, topic: str, driver: Driver) -> None:
    """Of three transactions one is aborted, one committed, and one is open until the first look is over."""
    broker.create_topic(topic, 1)
    producer = _transactor(broker, board, driver, topic)
    producer.do("init", "begin", f"produce {topic} aborted {RECORDS}", "abort")
    producer.do("begin", f"produce {topic} committed {RECORDS}", "commit")
    producer.do("begin", f"produce {topic} open {RECORDS}")
    assert read_to_end(broker, topic, COMMITTED) == _values("committed")
    assert read_to_end(broker, topic, UNCOMMITTED) == _values("aborted", "committed", "open")
    producer.do("commit")
    eventually(
        "the last transaction", lambda: read_to_end(broker, topic, COMMITTED) == _values("committed", "open")
    )
    producer.leave()


@pytest.mark.parametrize("driver", DRIVERS, ids=str)
def test_a_consumer_waits_for_the_end_of_a_transaction(
    broker: Broker, board: Board, group: Group, topic: str, driver: Driver
) -> None:
    """Each client's consumer: one of committed records stops at the open transaction, one of all does not."""
    broker.create_topic(topic, 1)
    producer = _transactor(broker, board, CONFLUENT, topic)
    producer.do("init", "begin", f"produce {topic} aborted {RECORDS}", "abort")
    producer.do("begin", f"produce {topic} committed {RECORDS}", "commit")
    producer.do("begin", f"produce {topic} open {RECORDS}")
    broker.produce(topic, 1, 1)
    plain = [f"{topic}-0-0"]
    group.isolation_level = COMMITTED
    careful = group.join(topic)
    everyone = Group(broker, driver, command_of(driver), f"{group.name}-everyone", board)
    curious = everyone.join(topic)

    def delivered() -> list[list[str]]:
        return [[record["value"] for record in member.of("record")] for member in (careful, curious)]

    everything = _values("aborted", "committed", "open") + plain
    board.wait("visible records", lambda: delivered() == [_values("committed"), everything])
    producer.do("commit")
    committed = _values("committed", "open") + plain
    board.wait("the rest", lambda: delivered() == [committed, everything])


@pytest.mark.parametrize("step", ["produce", "commit"])
@pytest.mark.parametrize("driver", PRODUCERS, ids=str)
def test_a_zombie_is_fenced(broker: Broker, board: Board, topic: str, driver: Driver, step: str) -> None:
    """A second producer of the transactional id aborts the transaction of the first one and fences it."""
    broker.create_topic(topic, 1)
    zombie = _transactor(broker, board, driver, topic)
    zombie.do("init", "begin", f"produce {topic} zombie {RECORDS}")
    heir = _transactor(broker, board, driver, topic)
    heir.do("init", "begin", f"produce {topic} heir {RECORDS}")
    refused = zombie.ask({"produce": f"produce {topic} again {RECORDS}"}.get(step, step))
    assert refused["event"] == "error", board.report()
    if step == "produce" and driver.zombie_interrupts:
        # It asks for its id anew beside its answer to us: that comes before the heir's commit, or after.
        committed = _values("heir") if heir.ask("commit")["event"] == "done" else []
        eventually("the end", lambda: read_to_end(broker, topic, COMMITTED) == committed)
        return
    heir.do("commit", "begin", f"produce {topic} more {RECORDS}", "commit")
    eventually("the heir", lambda: read_to_end(broker, topic, COMMITTED) == _values("heir", "more"))
    assert read_to_end(broker, topic, UNCOMMITTED) == _values("zombie", "heir", "more")


@pytest.mark.parametrize("driver", PRODUCERS, ids=str)
def test_offsets_count_after_the_commit(
    broker: Broker, board: Board, topic: str, group_name: str, driver: Driver
) -> None:
    """The offsets of a group in a transaction are committed with the transaction, or not at all."""
    output = f"{topic}-output"
    broker.create_topic(topic, 1)
    broker.create_topic(output, 1)
    broker.produce(topic, 1, 9)
    producer = _transactor(broker, board, driver, topic, "--group", group_name, "--topics", topic)
    producer.do("init", "begin", f"produce {output} one {RECORDS}", f"offsets {topic} 0 5")
    assert broker.committed(group_name) == {}
    producer.do("commit")
    broker.wait_committed(group_name, {(topic, 0): 5})
    producer.do("begin", f"produce {output} two {RECORDS}", f"offsets {topic} 0 7", "abort")
    # Its records are taken only when the transaction before it has ended everywhere.
    producer.do("begin", f"produce {output} three {RECORDS}")
    assert broker.committed(group_name) == {(topic, 0): 5}
    producer.do(f"offsets {topic} 0 9", "commit")
    broker.wait_committed(group_name, {(topic, 0): 9})
    eventually("committed records", lambda: read_to_end(broker, output, COMMITTED) == _values("one", "three"))


@pytest.mark.parametrize("driver", PRODUCERS, ids=str)
def test_transactions_go_on_after_restarts(
    mortal_broker: Broker, board: Board, topic: str, driver: Driver
) -> None:
    """The same producer after a restart by SIGTERM and another by SIGKILL: ended transactions stay ended."""
    broker = mortal_broker
    if not broker.can_restart:
        lacking("GROUPD_TEST_RESTART names no program that restarts this broker")
    broker.create_topic(topic, 1)
    producer = _transactor(broker, board, driver, topic)
    producer.do("init", "begin", f"produce {topic} zero {RECORDS}", "commit")
    seen = ["zero"]
    for how in (signal.SIGTERM, signal.SIGKILL):
        producer.do("begin", f"produce {topic} aborted-{how.name} {RECORDS}", "abort")
        producer.do("begin", f"produce {topic} before-{how.name} {RECORDS}", "commit")
        broker.restart(how)
        seen.append(f"before-{how.name}")
        eventually("committed records", lambda: read_to_end(broker, topic, COMMITTED) == _values(*seen))
        producer.do("begin", f"produce {topic} after-{how.name} {RECORDS}", "commit")
        seen.append(f"after-{how.name}")
    eventually("all that was committed", lambda: read_to_end(broker, topic, COMMITTED) == _values(*seen))
    producer.leave()
