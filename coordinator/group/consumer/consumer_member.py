"""Members of consumer groups as immutable values, and the records of consumer groups."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from sys import intern
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.outcome import Fact
from coordinator.group.event_details import MemberName
from protocol.records.group_record_schemas import (
    ClassicMemberMetadata,
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

AssignedPartitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch of the member at which it became its own. No topic is empty."""
TargetPartitions: TypeAlias = Mapping[bytes, tuple[int, ...]]
"""Partitions by topic id, in the order of the record. No topic is empty."""

NOTHING_ASSIGNED: Final[AssignedPartitions] = {}
NO_TARGET: Final[TargetPartitions] = {}
NO_TIMEOUT: Final = -1
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
"""Of a static member that left for a while: its partitions are kept for its instance."""


class MemberState(IntEnum):
    """Where a member stands; the value is the byte in the log."""

    STABLE = 0
    """It has all of its target that its epoch knows."""
    UNREVOKED_PARTITIONS = 1
    """It has to confirm that it gave partitions up."""
    UNRELEASED_PARTITIONS = 2
    """Others have not given up what it is to have."""
    UNKNOWN = 127
    """Something that a later version of Kafka wrote."""


class ConsumerMember(Struct, frozen=True):
    """Defaults are those of a new member. `subscribed_topic_regex` is "" for none; `server_assignor` None for no
    preference; `classic` is there for a member of the classic protocol. `assigned` is what it may own, and
    `pending` what it has to give up."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: AssignedPartitions = NOTHING_ASSIGNED
    pending: AssignedPartitions = NOTHING_ASSIGNED

    @property
    def name(self) -> MemberName:
        """Who it is, for people."""
        return MemberName(self.member_id, self.instance_id, self.client_id, self.client_host)

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it sends JoinGroup, SyncGroup and Heartbeat."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has what the target of that epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch


class ResolvedRegex(Struct, frozen=True):
    """What a regular expression matched: topics, in which version of a broker's metadata (0 where it was groupd
    that looked), and when that was (wall)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


# Records


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
    """The record of the current assignment of a member."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_encode_assigned(member.assigned),
        partitions_pending_revocation=_encode_assigned(member.pending),
    )
    return Fact(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def _encode_assigned(assigned: AssignedPartitions) -> list[CurrentTopicPartitions]:
    encoded = []
    for topic_id, epochs in assigned.items():
        partitions = sorted(epochs)
        encoded.append(
            CurrentTopicPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=list(map(epochs.__getitem__, partitions)),
            )
        )
    return encoded


def target_record(group_id: str, member_id: str, target: TargetPartitions) -> Fact:
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


# Tombstones


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
    """The tombstone of the epoch of a group, which is the end of the group."""
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
        state=_decode_state(value.state),
        assigned=_decode_assigned(value.assigned_partitions, value.member_epoch),
        pending=_decode_assigned(value.partitions_pending_revocation, value.member_epoch),
    )


def _decode_state(byte: int) -> MemberState:
    try:
        return MemberState(byte)
    except ValueError:
        return MemberState.UNKNOWN


def _decode_assigned(topics: Sequence[CurrentTopicPartitions], member_epoch: int) -> AssignedPartitions:
    """Kafka before KIP-1251 wrote no epochs; the member's own stands for them."""
    read: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        if topic.partitions:
            epochs = topic.assignment_epochs
            if epochs is None or len(epochs) != len(topic.partitions):
                epochs = [max(member_epoch, 0)] * len(topic.partitions)
            read[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return read


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> TargetPartitions:
    """What a member is to have."""
    return {topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions if topic.partitions}


def read_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """What a regular expression matches."""
    return ResolvedRegex(frozenset(map(intern, value.topics)), value.version, value.timestamp)
