"""Transactions of stock producers over three daemons. Their coordinator dies between the records and the end."""

from collections.abc import Iterator

import pytest

from tests.interop.broker import TRANSACTION, eventually
from tests.interop.cluster import Cluster, cluster
from tests.interop.conftest import command_of
from tests.interop.driver import PRODUCERS, Driver
from tests.interop.member import Board
from tests.interop.read_to_end import COMMITTED, UNCOMMITTED, read_to_end
from tests.interop.transactor import Transactor
from tests.shared_fixtures import shared

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
PARTITIONS = 3
RECORDS = 60
NOT_FOLLOWING = {
    "kafka_python": "waits 30 s for a coordinator that is gone, as for an answer, before it asks for another",
    "kafkajs": "tells its user that a coordinator loads",
    "franz_go": "aborts what its user commits, if its member of the group was not heard of meanwhile",
}
FOLLOWING = tuple(driver for driver in PRODUCERS if driver.name not in NOT_FOLLOWING)


@shared(Cluster.is_alive, scope="module")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests. The fixture restarts killed daemons at the end of a test."""
    yield from cluster(tmp_path_factory.mktemp("cluster"))


def _values(*names: str) -> list[str]:
    return sorted(f"{name}-{number}" for name in names for number in range(RECORDS))


def _read(cluster: Cluster, topic: str, isolation_level: str) -> list[str]:
    return sorted(read_to_end(cluster, topic, isolation_level))


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("driver", FOLLOWING, ids=str)
def test_a_transaction_ends_whole_and_once(
    mortal_broker: Cluster, board: Board, topic: str, group_name: str, driver: Driver, end: str
) -> None:
    """It is open when its coordinator is killed, and is ended before that is back; so is its group's offset. The
    same producer has another transaction before and after."""
    cluster, transactional_id = mortal_broker, f"{topic}-transactions"
    consumed = f"{topic}-consumed"
    cluster.create_topic(topic, PARTITIONS)
    cluster.create_topic(consumed, 1)
    cluster.produce(consumed, 1, 9)
    options = ("--group", group_name, "--topics", consumed)
    producer = Transactor(cluster, driver, command_of(driver), board, transactional_id, *options)
    producer.do("init", "begin", f"produce {topic} before {RECORDS}", f"offsets {consumed} 0 5", "commit")
    producer.do("begin", f"produce {topic} amid {RECORDS}", f"offsets {consumed} 0 7")
    coordinator = cluster.number_of(cluster.coordinator(transactional_id, TRANSACTION))
    with cluster.without(coordinator):
        producer.do(end, "begin", f"produce {topic} after {RECORDS}", "commit")
        committed = ("before", "amid", "after") if end == "commit" else ("before", "after")
        eventually(
            "all that is committed",
            lambda: _read(cluster, topic, COMMITTED) == _values(*committed),
            lambda: _read(cluster, topic, COMMITTED),
        )
    assert _read(cluster, topic, UNCOMMITTED) == _values("before", "amid", "after")
    cluster.wait_committed(group_name, {(consumed, 0): 7 if end == "commit" else 5})
    producer.leave()
