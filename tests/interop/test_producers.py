"""What stock producers write, stock consumers read."""

import pytest

from tests.interop.broker import Broker, eventually
from tests.interop.conftest import command_of
from tests.interop.driver import PRODUCERS, Driver
from tests.interop.member import Board, Member
from tests.interop.read_to_end import COMMITTED, read_to_end

pytestmark = pytest.mark.interop
RECORDS = 300
CASES = [(driver, codec) for driver in PRODUCERS for codec in ("none", *driver.codecs)]


def _produce(board: Board, driver: Driver, broker: Broker, topic: str, *options: str) -> Member:
    arguments = [
        "--mode",
        "produce",
        "--bootstrap",
        broker.bootstrap,
        "--topic",
        topic,
        "--count",
        str(RECORDS),
    ]
    producer = Member(board, f"{driver.name}-producer", [*command_of(driver), *arguments, *options])
    producer.finish(120)
    return producer


@pytest.mark.parametrize(("driver", "codec"), CASES, ids=[f"{d}-{c}" for d, c in CASES])
def test_produced_records_are_read_back(
    broker: Broker, board: Board, topic: str, driver: Driver, codec: str
) -> None:
    """Every codec of every producer, idempotent where the client can, arrives whole and once."""
    broker.create_topic(topic, 3)
    idempotent = "true" if driver.idempotent else "false"
    producer = _produce(board, driver, broker, topic, "--codec", codec, "--idempotent", idempotent)
    assert [event["count"] for event in producer.of("produced")] == [RECORDS], producer.report()
    values = broker.read_all(topic, RECORDS)
    assert sorted(values) == sorted(f"{codec}-{number}" for number in range(RECORDS))


@pytest.mark.parametrize("driver", PRODUCERS, ids=str)
def test_producer_without_idempotence(broker: Broker, board: Board, topic: str, driver: Driver) -> None:
    """The old way to produce works as well."""
    broker.create_topic(topic, 1)
    producer = _produce(board, driver, broker, topic, "--idempotent", "false")
    assert [event["count"] for event in producer.of("produced")] == [RECORDS], producer.report()


@pytest.mark.parametrize("driver", PRODUCERS, ids=str)
def test_transactional_producer(broker: Broker, board: Board, topic: str, driver: Driver) -> None:
    """A transaction of its own around everything: it is all there once it is committed."""
    broker.create_topic(topic, 1)
    producer = _produce(board, driver, broker, topic, "--transactional-id", f"{topic}-producer")
    assert [event["count"] for event in producer.of("produced")] == [RECORDS], producer.report()
    eventually("all that was committed", lambda: len(read_to_end(broker, topic, COMMITTED)) == RECORDS)
