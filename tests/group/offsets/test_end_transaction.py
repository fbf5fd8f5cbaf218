"""The ends of transactions and their effects on pending offsets. Less obvious results were observed with Apache
Kafka 4.4.0.
"""

import pytest

from coordinator.core.outcome import Context, TransactionMarker
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import (
    GroupDeleted,
    OffsetsDeleted,
    OffsetsSkipped,
    SkippedOffset,
    TransactionEnded,
)
from coordinator.group.group_request_rules import build_group_error_response, is_read_only
from coordinator.group.group_requests import EndTransaction, TopicsChanged
from coordinator.group.topics_image import NO_TOPICS
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponse
from tests.group.ask import WHO
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import stable_group


@pytest.fixture(params=["live", "loaded"])
def coordinator(request: pytest.FixtureRequest) -> Coordinator:
    """Return a coordinator. In one of two variants it restarts before every end of a transaction."""
    made = Coordinator(group_config(offsets_retention_minutes=1))
    if request.param == "loaded":
        end = made.end

        def crash_and_end(producer_id: int, *, is_committed: bool = True) -> None:
            made.restart()
            end(producer_id, is_committed=is_committed)

        made.end = crash_and_end  # type: ignore[method-assign]
    return made


def offset(coordinator: Coordinator, partition: int = 0) -> int | None:
    return coordinator.shard.find_committed_offset(GROUP, "foo", partition)


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_marker_is_written_whether_or_not_anything_waits(is_committed: bool) -> None:
    coordinator = Coordinator()
    for _ in range(2):
        outcome = coordinator.shard.handle(
            EndTransaction(9, 4, 7, is_committed), Context(3, 0, "", ""), coordinator.now
        )
        assert outcome.marker == TransactionMarker(9, 4, 7, is_committed)
        assert (outcome.records, outcome.in_transaction) == ([], None)
        assert outcome.replies == [(3, ErrorCode.NONE)]
        assert outcome.events == []


def test_a_partition_that_is_not_served_says_so() -> None:
    request = EndTransaction(9, 4, 7, True)
    assert build_group_error_response(request, 0, ErrorCode.NOT_COORDINATOR) is ErrorCode.NOT_COORDINATOR
    assert not is_read_only(request)


def test_the_later_record_wins_a_plain_one_after_it(coordinator: Coordinator) -> None:
    coordinator.txn_commit(9, offset=5)
    coordinator.commit(offset=9)
    assert offset(coordinator) == 9
    coordinator.end(9)
    assert offset(coordinator) == 9
    assert coordinator.find_events(TransactionEnded) == [TransactionEnded(GROUP, 9, True, 0)]
    assert coordinator.find_events(OffsetsSkipped) == [
        OffsetsSkipped(GROUP, 9, 1, (SkippedOffset("foo", 0, 5, 9),))
    ]


def test_the_later_record_wins_a_plain_one_before_it(coordinator: Coordinator) -> None:
    coordinator.commit(offset=9)
    coordinator.txn_commit(9, offset=5)
    assert offset(coordinator) == 9
    coordinator.end(9)
    assert offset(coordinator) == 5
    assert coordinator.find_events(OffsetsSkipped) == []


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_of_two_producers_the_later_record_wins_whoever_ends_first(
    coordinator: Coordinator, order: tuple[int, int]
) -> None:
    coordinator.txn_commit(7, offset=70)
    coordinator.txn_commit(8, offset=80)
    for producer in order:
        coordinator.end(producer)
    assert offset(coordinator) == 80


def test_of_two_producers_one_may_abort(coordinator: Coordinator) -> None:
    coordinator.txn_commit(7, offset=70)
    coordinator.txn_commit(8, offset=80)
    coordinator.end(8, is_committed=False)
    assert coordinator.unstable({"foo": [0]}) == {("foo", 0): True}
    coordinator.end(7)
    assert offset(coordinator) == 70
    assert coordinator.unstable({"foo": [0]}) == {("foo", 0): False}


def test_the_last_of_a_producers_commits_counts(coordinator: Coordinator) -> None:
    for value in (1, 3, 2):
        coordinator.txn_commit(7, offset=value)
    coordinator.end(7)
    assert offset(coordinator) == 2
    coordinator.end(7)
    assert offset(coordinator) == 2


def test_what_ended_is_told_for_each_group() -> None:
    coordinator = Coordinator()
    for group, partition in ((GROUP, 0), (GROUP, 1), ("another", 0)):
        coordinator.txn_commit(9, group=group, partition=partition)
    coordinator.txn_commit(8, group="not of it")
    coordinator.commit(partition=1, offset=20)
    coordinator.end(9)
    assert coordinator.find_events(TransactionEnded) == [
        TransactionEnded(GROUP, 9, True, 1),
        TransactionEnded("another", 9, True, 1),
    ]
    coordinator.end(8, is_committed=False)
    assert coordinator.find_events(TransactionEnded)[2:] == [TransactionEnded("not of it", 8, False, 1)]


def test_a_plain_commit_is_not_skipped_by_an_abort() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9, offset=5)
    coordinator.commit(offset=9)
    coordinator.end(9, is_committed=False)
    assert coordinator.find_events(OffsetsSkipped) == []
    assert offset(coordinator) == 9


def test_of_many_that_are_skipped_some_are_named() -> None:
    coordinator = Coordinator()
    for partition in range(15):
        coordinator.txn_commit(9, partition=partition, offset=5)
        coordinator.commit(partition=partition, offset=6)
    coordinator.end(9)
    (skipped,) = coordinator.find_events(OffsetsSkipped)
    assert skipped.partitions == 15
    assert skipped.offsets == tuple(SkippedOffset("foo", number, 5, 6) for number in range(10))


# Pending offsets that are removed before the end


def test_an_offset_that_is_deleted_does_not_come_back(coordinator: Coordinator) -> None:
    coordinator.commit(partition=0, offset=1)
    coordinator.txn_commit(9, partition=0, offset=2)
    coordinator.txn_commit(9, partition=1, offset=3)
    coordinator.txn_commit(8, partition=1, offset=4)
    coordinator.txn_commit(9, partition=2, offset=5)
    coordinator.delete_offsets(("foo", 0), ("foo", 1), ("foo", 7))
    assert coordinator.find_events(OffsetsDeleted) == [OffsetsDeleted(GROUP, 2, "request")]
    coordinator.end(9)
    coordinator.end(8)
    assert coordinator.fetch() == {("foo", 2): (5, -1, "")}


def test_nor_does_that_of_a_topic_that_is_deleted(coordinator: Coordinator) -> None:
    for group in (GROUP, "another"):
        coordinator.txn_commit(9, offset=1, group=group)
        coordinator.txn_commit(9, topic="bar", offset=2, group=group)
    coordinator.commit(partition=5)
    coordinator.send(TopicsChanged(NO_TOPICS, ("foo", "unknown")), 0)
    assert coordinator.find_events(OffsetsDeleted) == [
        OffsetsDeleted(GROUP, 2, "topic deleted"),
        OffsetsDeleted("another", 1, "topic deleted"),
    ]
    coordinator.end(9)
    for group in (GROUP, "another"):
        assert coordinator.fetch(group=group) == {("bar", 0): (2, -1, "")}


def test_a_commit_after_the_deletion_is_another_one(coordinator: Coordinator) -> None:
    coordinator.txn_commit(9, offset=1)
    coordinator.delete_offsets(("foo", 0))
    coordinator.txn_commit(9, offset=2)
    coordinator.end(9)
    assert offset(coordinator) == 2


def test_a_group_may_be_deleted_and_is_not_revived(coordinator: Coordinator) -> None:
    coordinator.commit(partition=0)
    coordinator.txn_commit(9, partition=0)
    coordinator.txn_commit(9, partition=1)
    results = coordinator.delete_groups(GROUP).answer(DeleteGroupsResponse).results
    assert [one.error_code for one in results] == [0]
    assert coordinator.find_events(GroupDeleted) == [
        GroupDeleted(GROUP, 2, "request", member=MemberName("", None, *WHO))
    ]
    coordinator.end(9)
    assert coordinator.state() == "Dead"
    assert coordinator.shard.snapshot_durable() == {}


# Operations that wait for the end


def test_a_partition_with_a_pending_offset_does_not_expire_and_its_group_stays() -> None:
    coordinator = Coordinator(group_config(offsets_retention_minutes=1))
    for partition in (0, 1):
        coordinator.commit(partition=partition, offset=4)
    coordinator.txn_commit(9, partition=1, offset=6)
    coordinator.txn_commit(9, offset=6, group="pending only")
    coordinator.advance(3_600_000)
    assert coordinator.fetch() == {("foo", 1): (4, -1, "")}
    assert coordinator.state("pending only") == "Empty"
    coordinator.end(9, is_committed=False)
    coordinator.advance(3_600_000)
    assert coordinator.shard.snapshot_durable() == {}
    assert coordinator.shard.group_count == 0


def test_only_committed_offsets_are_counted() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.txn_commit(9, partition=1)
    assert coordinator.shard.durable_keys == 1
    coordinator.end(9)
    assert coordinator.shard.durable_keys == 2


# Fetches of stable offsets


def test_a_pending_offset_is_unstable_for_who_cares() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1, partition=0, offset=4)
    coordinator.commit(member, 1, partition=1, offset=5)
    coordinator.txn_commit(9, member, 1, partition=1)
    coordinator.txn_commit(9, member, 1, partition=2)
    requested = {"foo": [2, 1, 0, 3], "bar": [1]}
    assert coordinator.unstable(requested) == {
        ("foo", 2): True,
        ("foo", 1): True,
        ("foo", 0): False,
        ("foo", 3): False,
        ("bar", 1): False,
    }
    assert coordinator.fetch({"foo": [1, 2]}) == {("foo", 1): (5, -1, ""), ("foo", 2): (-1, -1, "")}
    assert coordinator.unstable(requested, group="another") == dict.fromkeys(
        coordinator.unstable(requested), False
    )
    coordinator.end(9)
    assert not any(coordinator.unstable(requested).values())


def test_of_all_offsets_only_committed_ones_are_listed() -> None:
    coordinator = Coordinator()
    coordinator.commit(partition=0)
    coordinator.txn_commit(9, partition=0)
    coordinator.commit(partition=1)
    coordinator.txn_commit(9, partition=2)
    assert coordinator.unstable() == {("foo", 0): True, ("foo", 1): False}
