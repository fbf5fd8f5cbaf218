import pytest

from coordinator.cluster.in_process_ownership import InProcessOwnership
from coordinator.cluster.partition_ownership import BrokerInfo, ClusterOperationError, MoveCause
from coordinator.core.shared_types import Node
from storage.topic_partition import TopicPartition

COORDINATED = [TopicPartition("__consumer_offsets", number) for number in range(6)]
RECORDS = [TopicPartition("orders", number) for number in range(6)]


class Table:
    """Three brokers; coordinators may be at each, records have one replica."""

    def __init__(self) -> None:
        self.cluster = InProcessOwnership(
            dict.fromkeys((1, 2, 3)),
            lambda: COORDINATED + RECORDS,
            lambda topic: 1 if topic == "orders" else 3,
            self,
        )
        self.told: list[tuple[str, TopicPartition, int, MoveCause]] = []

    def on_partition_gained(
        self, partition: TopicPartition, node_id: int, cause: MoveCause, hold_loading_s: float
    ) -> None:
        self.told.append(("gained", partition, node_id, cause))

    def on_partition_lost(self, partition: TopicPartition, node_id: int, cause: MoveCause) -> None:
        self.told.append(("lost", partition, node_id, cause))

    def owners(self) -> dict[TopicPartition, int | None]:
        return {part: self.cluster.find_owner(part) for part in COORDINATED + RECORDS}


@pytest.fixture
def table() -> Table:
    return Table()


def test_every_broker_owns_as_much_as_the_others(table: Table) -> None:
    owners = table.owners()
    for parts in (COORDINATED, RECORDS):
        assert sorted(str(owners[part]) for part in parts) == ["1", "1", "2", "2", "3", "3"]


def test_a_start_places_as_the_last_one_did() -> None:
    assert Table().owners() == Table().owners()


def test_a_moved_partition_is_lost_and_gained_once(table: Table) -> None:
    part = COORDINATED[0]
    before = table.cluster.find_owner(part)
    to = before % 3 + 1 if before is not None else 0
    assert table.cluster.move_partition(part, to)
    assert table.told == [("lost", part, before, MoveCause.MOVED), ("gained", part, to, MoveCause.MOVED)]
    assert not table.cluster.move_partition(part, to)
    assert len(table.told) == 2


def test_records_that_are_moved_have_their_replica_elsewhere(table: Table) -> None:
    part = RECORDS[0]
    to = (table.cluster.find_owner(part) or 0) % 3 + 1
    table.cluster.move_partition(part, to)
    assert list(table.cluster.find_replicas(part)) == [to]


def test_what_a_stopped_broker_coordinated_goes_to_others_and_stays_there(table: Table) -> None:
    before = table.owners()
    table.cluster.stop_broker(2)
    stopped = table.owners()
    assert 2 not in stopped.values()
    assert all(stopped[part] == owner for part, owner in before.items() if owner != 2)
    assert all(stopped[part] is not None for part in COORDINATED)
    assert {part for part in RECORDS if stopped[part] is None} == {
        part for part in RECORDS if before[part] == 2
    }
    table.told.clear()
    table.cluster.start_broker(2)
    after = table.owners()
    assert all(after[part] == stopped[part] for part in COORDINATED)
    assert all(after[part] == before[part] for part in RECORDS)
    assert {part for _, part, _, _ in table.told} == {part for part in RECORDS if before[part] == 2}


def test_two_may_stop_and_the_last_may_not(table: Table) -> None:
    table.cluster.stop_broker(1)
    table.cluster.stop_broker(3)
    assert {table.cluster.find_owner(part) for part in COORDINATED} == {2}
    with pytest.raises(ClusterOperationError, match="last"):
        table.cluster.stop_broker(2)


@pytest.mark.parametrize(("to", "why"), [(9, "broker 9"), (3, "stopped")])
def test_nothing_moves_to_a_broker_that_is_not_there(table: Table, to: int, why: str) -> None:
    table.cluster.stop_broker(3)
    owners = table.owners()
    with pytest.raises(ClusterOperationError, match=why):
        table.cluster.move_partition(COORDINATED[0], to)
    assert table.owners() == owners


def test_a_topic_of_the_same_name_is_placed_anew(table: Table) -> None:
    before = table.owners()
    for part in RECORDS:
        table.cluster.move_partition(part, 1)
    table.cluster.forget_topic("orders")
    assert table.owners() == before


def test_a_move_cancels_what_is_in_progress(table: Table) -> None:
    part = RECORDS[0]
    owner = table.cluster.find_owner(part)
    assert owner is not None
    stopped, to = owner % 3 + 1, (owner + 1) % 3 + 1
    table.cluster.stop_broker(stopped)
    table.cluster.reassign_replicas(part, [stopped])
    table.told.clear()
    assert table.cluster.move_partition(part, to)
    assert [act for act, *_ in table.told] == ["lost", "gained"]
    table.cluster.start_broker(stopped)
    assert (table.cluster.find_owner(part), list(table.cluster.find_replicas(part))) == (to, [to])


def test_another_reassignment_takes_the_place_of_one_in_progress(table: Table) -> None:
    part = RECORDS[0]
    owner = table.cluster.find_owner(part)
    assert owner is not None
    stopped, to = owner % 3 + 1, (owner + 1) % 3 + 1
    table.cluster.stop_broker(stopped)
    table.cluster.reassign_replicas(part, [stopped])
    table.cluster.reassign_replicas(part, [to])
    assert not table.cluster.reassigning
    table.cluster.start_broker(stopped)
    assert (table.cluster.find_owner(part), list(table.cluster.find_replicas(part))) == (to, [to])


def test_a_topic_that_is_gone_is_not_being_reassigned(table: Table) -> None:
    part = RECORDS[0]
    stopped = (table.cluster.find_owner(part) or 0) % 3 + 1
    table.cluster.stop_broker(stopped)
    table.cluster.reassign_replicas(part, [stopped])
    table.cluster.forget_topic("orders")
    assert not table.cluster.reassigning


def test_a_coordinator_of_one_replica_has_no_owner_while_that_is_stopped(table: Table) -> None:
    part = COORDINATED[0]
    to = (table.cluster.find_owner(part) or 0) % 3 + 1
    table.cluster.reassign_replicas(part, [to])
    table.cluster.stop_broker(to)
    assert table.cluster.find_owner(part) is None
    table.cluster.start_broker(to)
    assert table.cluster.find_owner(part) == to


def test_a_broker_without_the_listener_of_the_client_has_no_port() -> None:
    """Responses that list such a broker do not fail."""
    connected = Node(1, "localhost", 9092, "EXTERNAL")
    other = BrokerInfo(2, ports={"INTERNAL": 9093}).node_for_client(connected)
    assert (other.node_id, other.host, other.port) == (2, "localhost", -1)
