"""The records of a consumer group in `__consumer_offsets`, and its members from them.

Source: Kafka's `GroupCoordinatorRecordHelpers` and `ConsumerGroupMember.Builder.updateWith`.
"""

from collections.abc import Mapping, Sequence
from sys import intern

from msgspec import Struct
from msgspec.structs import replace

from coordinator.group.consumer.member import Assigned, ConsumerMember, MemberState, Target
from coordinator.machine.outcome import Fact
from protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)


class ResolvedRegex(Struct, frozen=True):
    """What a regular expression matched: topics, in which version of a broker's metadata (0 where it was groupd
    that looked), and when that was (wall)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


# To records


def member_record(group_id: str, member: ConsumerMember) -> Fact:
    """What a member said of itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    return Fact(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> Fact:
    """Where a member stands."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_written(member.assigned),
        partitions_pending_revocation=_written(member.pending),
    )
    return Fact(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def _written(assigned: Assigned) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in assigned.items()
    ]


def target_record(group_id: str, member_id: str, target: Target) -> Fact:
    """What a member is to have."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return Fact(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Fact:
    """The group's epoch, and what its topics were when it began."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Fact(ConsumerGroupMetadataKey(group_id=group_id), value)


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Fact:
    """The epoch of the target, and when it was computed (wall); 0: the next one may be computed at once."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return Fact(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Fact:
    """What a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return Fact(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


# Their ends


def member_tombstone(group_id: str, member_id: str) -> Fact:
    """What a member said of itself counts no more."""
    return Fact(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def current_tombstone(group_id: str, member_id: str) -> Fact:
    """A member has nothing any more."""
    return Fact(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def target_tombstone(group_id: str, member_id: str) -> Fact:
    """A member is to have nothing any more."""
    return Fact(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def regex_tombstone(group_id: str, regex: str) -> Fact:
    """Nobody uses a regular expression any more."""
    return Fact(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_tombstone(group_id: str) -> Fact:
    """What Kafka up to 4.0 wrote of a group's topics."""
    return Fact(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def assignment_epoch_tombstone(group_id: str) -> Fact:
    """The group has no target any more."""
    return Fact(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def epoch_tombstone(group_id: str) -> Fact:
    """The group is gone."""
    return Fact(ConsumerGroupMetadataKey(group_id=group_id), None)


# From records


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member, which says this of itself now."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=intern(value.client_id),
        client_host=intern(value.client_host),
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(map(intern, value.subscribed_topic_names)),
        subscribed_topic_regex=intern(value.subscribed_topic_regex or ""),
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_current(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member, which stands there now."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=_state(value.state),
        assigned=_read(value.assigned_partitions, value.member_epoch),
        pending=_read(value.partitions_pending_revocation, value.member_epoch),
    )


def _state(byte: int) -> MemberState:
    try:
        return MemberState(byte)
    except ValueError:
        return MemberState.UNKNOWN


def _read(topics: Sequence[CurrentTopicPartitions], member_epoch: int) -> Assigned:
    """Kafka before KIP-1251 wrote no epochs; the member's own stands for them."""
    read: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        if topic.partitions:
            epochs = topic.assignment_epochs
            if epochs is None or len(epochs) != len(topic.partitions):
                epochs = [max(member_epoch, 0)] * len(topic.partitions)
            read[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return read


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    """What a member is to have."""
    return {topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions if topic.partitions}


def read_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """What a regular expression matches."""
    return ResolvedRegex(frozenset(map(intern, value.topics)), value.version, value.timestamp)
