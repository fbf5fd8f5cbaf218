"""Operations on very many offsets: one call of the core does a limited part, and timers do the rest."""

from typing import Final

import pytest

from coordinator.core.outcome import Context, Fact, Now, Outcome
from coordinator.group.group_event_types import OffsetsDeleted, OffsetsExpired
from coordinator.group.group_requests import EndTransaction, GroupTimerKey, GroupTimerKind, TopicsChanged
from coordinator.group.group_shard import GroupShard
from coordinator.group.offsets.offset_removal import MAX_REMOVED_OFFSETS
from coordinator.group.topics_image import NO_TOPICS, TopicImage, TopicsImage
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from tests.group.config import group_config
from tests.group.new_shard import CONSUMER_CONFIG
from tests.group.work_count import count_bytecodes

START: Final = Now(1_000_000, 1_700_000_000_000)
MINUTE: Final = 60_000
MANY: Final = 3 * MAX_REMOVED_OFFSETS + 7
TOPIC_ID: Final = bytes(15) + b"\1"
EXPIRE: Final = GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS)
DELETE: Final = GroupTimerKey(GroupTimerKind.DELETE_OFFSETS)


def load_shard(offsets: int, groups: int, producer_id: int = -1) -> GroupShard:
    """Return a shard with this number of committed offsets, or of pending ones with a producer id."""
    config = group_config(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE)
    shard = GroupShard(config, NO_TOPICS, CONSUMER_CONFIG)
    for number in range(offsets):
        partition, group = divmod(number, groups)
        key = OffsetCommitKey(group=f"g{group}", topic="foo", partition=partition)
        value = OffsetCommitValue(
            offset=7, leader_epoch=-1, metadata="", commit_timestamp=START.wall_ms, topic_id=TOPIC_ID
        )
        shard.replay(Fact(key, value), producer_id)
    shard.on_loaded(START)
    return shard


def play(shard: GroupShard, first: Outcome, key: GroupTimerKey, now: Now) -> list[Outcome]:
    """Fire a timer as long as it is due at once. Return all outcomes, the first one included."""
    outcomes = [first]
    while outcomes[-1].timers.get(key) == now.monotonic_ms:
        outcomes.append(shard.fire_timer(key, now))
        shard.check_invariants()
    return outcomes


@pytest.mark.parametrize("groups", [1, 5, MANY])
def test_retention_removes_bounded_numbers_of_offsets_until_all_are_gone(groups: int) -> None:
    shard = load_shard(MANY, groups)
    now = Now(START.monotonic_ms + 20 * MINUTE, START.wall_ms + 20 * MINUTE)
    outcomes = play(shard, shard.fire_timer(EXPIRE, now), EXPIRE, now)
    assert outcomes[-1].timers == {EXPIRE: now.monotonic_ms + MINUTE}
    assert len(outcomes) > 3
    for outcome in outcomes:
        offsets = [fact for fact in outcome.records if isinstance(fact.key, OffsetCommitKey)]
        assert len(offsets) <= MAX_REMOVED_OFFSETS
    events = [event for outcome in outcomes for event in outcome.events if isinstance(event, OffsetsExpired)]
    assert sum(event.partitions for event in events) == MANY
    assert shard.durable_keys == shard.group_count == 0


def test_a_look_at_very_many_offsets_takes_several_calls() -> None:
    offsets = 30_000
    shard = load_shard(offsets, 100)
    outcomes = play(shard, shard.fire_timer(EXPIRE, START), EXPIRE, START)
    assert 2 < len(outcomes) < 10
    assert not any(outcome.records for outcome in outcomes)
    assert shard.durable_keys == offsets


@pytest.mark.parametrize("groups", [1, 5, MANY])
def test_a_deleted_topic_takes_bounded_numbers_of_offsets_along(groups: int) -> None:
    shard = load_shard(MANY, groups)
    change = TopicsChanged(TopicsImage(version=1), ["foo"])
    first = shard.handle(change, Context(0, 0, "", ""), START)
    outcomes = play(shard, first, DELETE, START)
    assert len(outcomes) == 4
    assert all(len(outcome.records) <= MAX_REMOVED_OFFSETS for outcome in outcomes)
    events = [event for outcome in outcomes for event in outcome.events]
    assert all(isinstance(event, OffsetsDeleted) for event in events)
    assert sum(event.partitions for event in events) == MANY
    assert shard.durable_keys == 0


def test_topics_that_are_deleted_meanwhile_wait_and_their_successors_keep_their_offsets() -> None:
    shard = load_shard(MANY, 1)
    first = shard.handle(TopicsChanged(TopicsImage(version=1), ["foo"]), Context(0, 0, "", ""), START)
    again = TopicsImage([TopicImage("foo", TOPIC_ID, MANY)], version=2)
    second = shard.handle(TopicsChanged(again, ["bar"]), Context(0, 0, "", ""), START)
    assert not second.records
    play(shard, first, DELETE, START)
    assert shard.durable_keys == MANY - MAX_REMOVED_OFFSETS


def test_the_end_of_a_large_transaction_looks_up_each_topic_once() -> None:
    offsets = 2_000
    shard = load_shard(offsets, 1, producer_id=4)
    end = EndTransaction(4, 0, 0, is_committed=True)
    count = count_bytecodes(lambda: shard.handle(end, Context(1, 0, "", ""), START))
    assert count < 120 * offsets
    assert shard.durable_keys == offsets
    shard.check_invariants()
