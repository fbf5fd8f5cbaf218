"""The work of one call of the core for groups of many members that name thousands of topics.

Limits are in bytecodes for each topic of a member, or for each topic of each member.
"""

from functools import partial
from typing import Final

import pytest

from coordinator.core.outcome import Context, Now, WorkDone
from coordinator.group.consumer.target_assignment import compute_target
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.group.config import group_config
from tests.group.new_shard import CONSUMER_CONFIG
from tests.group.work_count import count_bytecodes

TOPICS: Final = 1_000
MEMBERS: Final = 10
GROUP: Final = "g"
NAMES: Final = [f"topic-{number:04}" for number in range(TOPICS)]


class LargeGroup:
    """A shard with one consumer group. Unless `is_homogeneous`, each member leaves out one topic."""

    def __init__(self, partitions: int = 3, *, is_homogeneous: bool = True) -> None:
        topics = [TopicImage(name, number.to_bytes(16), partitions) for number, name in enumerate(NAMES, 1)]
        self.shard = GroupShard(group_config(), TopicsImage(topics, 1), CONSUMER_CONFIG)
        self.is_homogeneous = is_homogeneous
        self.now = Now(1_000_000, 1_700_000_000_000)
        self.replies: dict[int, object] = {}
        self.done: list[WorkDone] = []
        self.records = 0

    def pass_interval(self) -> None:
        """Advance the clock by the interval after which the next target may be computed."""
        self.now = Now(self.now.monotonic_ms + 60_000, self.now.wall_ms + 60_000)

    def call(self, request: object, waiter: int) -> None:
        """Send a request to the shard."""
        outcome = self.shard.handle(request, Context(waiter, 1, "c", "/h"), self.now)  # type: ignore[arg-type]
        self.replies.update(outcome.replies)
        self.records += len(outcome.records)
        self.done += [
            WorkDone(work, compute_target(work.argument))  # type: ignore[arg-type]
            for work in outcome.work
        ]

    def join(self, number: int) -> None:
        """Send the first heartbeat of a member."""
        left_out = None if self.is_homogeneous else number
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[name for index, name in enumerate(NAMES) if index != left_out],
            topic_partitions=[],
        )
        self.call(request, number)

    def take_targets(self) -> float:
        """Pass the computed targets to the shard. Return the largest number of bytecodes of one call."""
        counts = [0.0]
        while self.done:
            done = self.done.pop(0)
            counts.append(count_bytecodes(partial(self.call, done, 0)))
        return max(counts)

    def join_all(self) -> None:
        """Join all members; the target of all of them is not computed yet."""
        for number in range(MEMBERS):
            self.join(number)
            self.take_targets()

    def error(self, number: int) -> int:
        """Return the error of the last response to a member."""
        response = self.replies[number]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response.error_code


def test_a_member_that_joins_does_not_hash_the_topics_of_the_group_again() -> None:
    group = LargeGroup()
    group.join_all()
    assert count_bytecodes(lambda: group.join(MEMBERS)) < 250 * TOPICS
    assert group.error(MEMBERS) == ErrorCode.NONE


@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_a_target_of_many_members_is_taken_without_a_look_at_each_of_their_topics(
    is_homogeneous: bool,
) -> None:
    group = LargeGroup(is_homogeneous=is_homogeneous)
    group.join_all()
    group.pass_interval()
    group.join(MEMBERS)
    assert group.done, "the target is computed elsewhere"
    limit = 42 if is_homogeneous else 70
    assert group.take_targets() < limit * TOPICS * MEMBERS
    assert group.error(MEMBERS) == ErrorCode.NONE


def test_a_target_too_large_to_be_written_is_refused_before_its_records_are_made() -> None:
    partitions = 300
    group = LargeGroup(partitions)
    group.join(0)
    assert group.take_targets() < 500 * TOPICS
    assert group.error(0) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.records == 0


def test_the_description_of_members_shares_what_is_the_same() -> None:
    group = LargeGroup()
    group.join_all()
    group.pass_interval()
    group.join(MEMBERS)
    group.take_targets()
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
    group.call(request, 99)
    response = group.replies[99]
    assert isinstance(response, ConsumerGroupDescribeResponse)
    members = response.groups[0].members
    assert all(member.subscribed_topic_names == NAMES for member in members)
    assert len({id(member.subscribed_topic_names) for member in members}) == 1, "sorted once"
    targets = [
        (topic.topic_name, partition)
        for member in members
        for topic in member.target_assignment.topic_partitions
        for partition in topic.partitions
    ]
    assert sorted(targets) == [(name, partition) for name in NAMES for partition in range(3)]
