"""What stock producers write, stock consumers read."""

import pytest

from tests.interop.broker import Broker
from tests.interop.conftest import command_of
from tests.interop.driver import PRODUCERS, Driver
from tests.interop.member import Board, Member

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
    producer.finish(40)
    return producer


@pytest.mark.parametrize(("driver", "codec"), CASES, ids=[f"{d}-{c}" for d, c in CASES])
def test_produced_records_come_back(
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
    """A broker without transactions says so at once: the producer fails instead of trying for ever."""
    broker.create_topic(topic, 1)
    producer = _produce(board, driver, broker, topic, "--transactional-id", f"{topic}-producer")
    if not broker.is_groupd:
        assert producer.of("produced"), producer.report()
        return
    errors = producer.of("error")
    assert errors, producer.report()
    assert errors[0]["fatal"], producer.report()
    assert not producer.of("produced"), producer.report()
    took_s = errors[0]["at"] - producer.of("ready")[0]["at"]
    assert took_s < 10, producer.report()
