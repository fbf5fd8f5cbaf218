"""kafka-transactions on a cluster of three daemons: each lists the transactions that it coordinates, and describes
the partitions that it leads."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.interop.broker import TRANSACTION, eventually
from tests.interop.cluster import Cluster, cluster
from tests.shared_fixtures import shared
from tests.tools.desk import WAIT_S, Desk
from tests.tools.transactions import begun, described_producers, listed, write_unknown

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
PARTITIONS = 3


@shared(Cluster.is_alive, scope="module")
def tool_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all the tests, in the place of the one broker. It takes records of transactions that their
    coordinators do not know."""
    yield from cluster(tmp_path_factory.mktemp("cluster"), transaction_partition_verification_enable="false")


def of_each_coordinator(cluster: Cluster, desk: Desk, topic: str) -> dict[int, tuple[str, Producer]]:
    """A transaction that is open, with a record in each partition, by the number of the daemon that coordinates
    it."""
    found: dict[int, tuple[str, Producer]] = {}
    for number in range(100):
        transactional_id = f"{topic}-id-{number}"
        coordinator = cluster.number_of(cluster.coordinator(transactional_id, TRANSACTION))
        if coordinator not in found:
            found[coordinator] = transactional_id, begun(desk, transactional_id, topic, *range(PARTITIONS))
        if len(found) == PARTITIONS:
            return found
    raise AssertionError(found)


def wait_completed(desk: Desk, transactional_id: str) -> None:
    """Until every broker has its markers."""

    def is_completed() -> bool:
        row = listed(desk, transactional_id)
        return row is not None and row["TransactionState"] == "CompleteCommit"

    eventually(f"the end of {transactional_id}", is_completed)


def test_transactions_of_every_coordinator(tool_broker: Cluster, desk: Desk, topic: str) -> None:
    """The tool lists all of them, describes each by its coordinator, and finds them at every leader."""
    tool_broker.create_topic(topic, PARTITIONS)
    everywhere = {f"{topic}-{number}" for number in range(PARTITIONS)}
    for coordinator, (transactional_id, producer) in of_each_coordinator(tool_broker, desk, topic).items():
        row = listed(desk, transactional_id)
        assert row is not None
        assert (row["Coordinator"], row["TransactionState"]) == (str(coordinator + 1), "Ongoing")
        (state,) = desk.transactions("describe", "--transactional-id", transactional_id)
        assert set(state["TopicPartitions"].split(",")) == everywhere
        for number in range(PARTITIONS):
            writers = {one["ProducerId"]: one for one in described_producers(desk, topic, number)}
            assert writers[row["ProducerId"]]["CurrentTransactionStartOffset"] != "None"
        producer.commit_transaction(WAIT_S)
        wait_completed(desk, transactional_id)
        for number in range(PARTITIONS):
            writers = {one["ProducerId"]: one for one in described_producers(desk, topic, number)}
            assert writers[row["ProducerId"]]["CurrentTransactionStartOffset"] == "None"


def test_a_transaction_that_nobody_will_end_is_found_and_aborted(
    tool_broker: Cluster, desk: Desk, topic: str
) -> None:
    """After a leader is killed, the next one knows the hanging transaction and aborts it, but no known one."""
    tool_broker.create_topic(topic, PARTITIONS)
    leader = tool_broker.leader(topic, 0)
    begun(desk, f"{topic}-id", topic, *range(PARTITIONS))
    write_unknown(tool_broker.address_of(leader), topic, 0)
    unknown = {"Topic": topic, "Partition": "0", "ProducerId": "4711"}
    (found,) = desk.transactions("find-hanging", "--topic", topic)
    assert found.items() >= unknown.items()
    with tool_broker.without(leader):
        tool_broker.next_leader(topic, 0, dead=leader)
        (found,) = desk.transactions("find-hanging", "--topic", topic)
        assert found.items() >= unknown.items()
        place = ("--topic", topic, "--partition", "0", "--start-offset", found["StartOffset"])
        desk.transactions("abort", *place)
        assert desk.transactions("find-hanging", "--topic", topic) == []
        writers = {one["ProducerId"]: one for one in described_producers(desk, topic, 0)}
        assert writers.pop("4711")["CurrentTransactionStartOffset"] == "None"
        (known,) = writers.values()
        assert known["CurrentTransactionStartOffset"] != "None"
