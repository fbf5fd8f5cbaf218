"""Plain and transactional commits for one partition of a group are told once for each group and load."""

from coordinator.group.events import MixedCommits
from tests.group.coordinator import GROUP, Coordinator


def told(coordinator: Coordinator) -> list[tuple[str, int, bool]]:
    return [
        (event.group_id, event.partition, event.is_transactional) for event in coordinator.told(MixedCommits)
    ]


def test_a_plain_commit_where_one_is_pending() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    assert told(coordinator) == []
    coordinator.commit()
    assert told(coordinator) == [(GROUP, 0, False)]


def test_a_plain_commit_where_one_was_committed() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    coordinator.end(9)
    coordinator.commit()
    assert told(coordinator) == [(GROUP, 0, False)]


def test_a_transaction_where_there_was_a_plain_commit() -> None:
    coordinator = Coordinator()
    coordinator.commit(partition=1)
    coordinator.txn_commit(9, partition=1)
    assert told(coordinator) == [(GROUP, 1, True)]


def test_it_is_told_once_for_each_group() -> None:
    coordinator = Coordinator()
    for group in ("a", "b"):
        for _ in range(3):
            coordinator.txn_commit(9, group=group)
            coordinator.commit(group=group)
            coordinator.end(9)
            coordinator.commit(group=group, partition=1)
            coordinator.txn_commit(8, group=group, partition=1)
    assert told(coordinator) == [("a", 0, False), ("b", 0, False)]


def test_different_partitions_topics_and_groups_are_not_mixed() -> None:
    coordinator = Coordinator()
    for _ in range(2):
        coordinator.txn_commit(9)
        coordinator.commit(partition=1)
        coordinator.commit(topic="bar")
        coordinator.commit(group="another")
        coordinator.end(9)
    assert told(coordinator) == []


def test_an_aborted_transaction_leaves_the_offset_as_plain_as_it_was() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    coordinator.end(9, is_committed=False)
    coordinator.commit()
    coordinator.commit()
    assert told(coordinator) == []


def test_nothing_is_left_of_an_offset_that_was_deleted() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    coordinator.end(9)
    coordinator.delete_offsets(("foo", 0))
    coordinator.commit()
    coordinator.delete_groups(GROUP)
    coordinator.txn_commit(9)
    assert told(coordinator) == []


def test_a_group_that_was_deleted_is_told_anew() -> None:
    coordinator = Coordinator()
    for _ in range(2):
        coordinator.commit()
        coordinator.txn_commit(9)
        coordinator.delete_groups(GROUP)
    assert told(coordinator) == [(GROUP, 0, True)] * 2


def test_of_what_was_loaded_it_is_not_known() -> None:
    """A value does not say where it came from."""
    coordinator = Coordinator()
    coordinator.txn_commit(9, partition=0)
    coordinator.end(9)
    coordinator.commit(partition=1)
    coordinator.advance(10)
    coordinator.restart()
    coordinator.advance(10)
    coordinator.commit(partition=0)
    coordinator.txn_commit(9, partition=1)
    coordinator.end(9)
    assert told(coordinator) == []
    coordinator.txn_commit(9, partition=0)
    assert told(coordinator) == [(GROUP, 0, True)]


def test_what_was_pending_at_a_load_is_known() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9, partition=0)
    coordinator.txn_commit(9, partition=1)
    coordinator.restart()
    coordinator.end(9)
    coordinator.commit(partition=1)
    assert told(coordinator) == [(GROUP, 1, False)]
    coordinator.restart()
    coordinator.txn_commit(9, partition=2)
    coordinator.commit(partition=2)
    assert told(coordinator) == [(GROUP, 2, False)]
