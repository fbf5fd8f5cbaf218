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
"""Partitions by topic id, each with the member epoch of its assignment. No topic is empty."""
TargetPartitions: TypeAlias = Mapping[bytes, tuple[int, ...]]
"""Partitions by topic id, in the order of the record. No topic is empty."""

NOTHING_ASSIGNED: Final[AssignedPartitions] = {}
NO_TARGET: Final[TargetPartitions] = {}
NO_TIMEOUT: Final = -1
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
"""The epoch of a static member that left temporarily: its partitions stay reserved for its instance."""


class MemberState(IntEnum):
    """The state of a member; the value is the byte in the log."""

    STABLE = 0
    """The member owns all partitions of its target at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member must acknowledge the revocation of partitions."""
    UNRELEASED_PARTITIONS = 2
    """Other members have not revoked partitions of the member's target."""
    UNKNOWN = 127
    """A state of a later version of Kafka."""


class ConsumerMember(Struct, frozen=True):
    """A member of a consumer group. Defaults are those of a new member.

    `subscribed_topic_regex` is "" without one; `server_assignor` is None without a preference; `classic` is set for
    a member of the classic protocol. `assigned` are the partitions that it may own, and `pending` those that it
    must revoke.
    """

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
        """Return the name of the member for events."""
        return MemberName(self.member_id, self.instance_id, self.client_id, self.client_host)

    @property
    def uses_classic_protocol(self) -> bool:
        """Return whether the member uses JoinGroup, SyncGroup and Heartbeat."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has reached the target of an epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch


class ResolvedRegex(Struct, frozen=True):
    """The matches of a regular expression: topics, the metadata version of the broker that resolved it (0 for
    groupd), and the wall time.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


# Records


def member_record(group_id: str, member: ConsumerMember) -> Fact:
    """Build the record of a member's subscription and settings."""
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
    """Build the record of the current assignment of a member."""
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
    """Build the record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return Fact(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Fact:
    """Build the record of the group epoch, with the hash of its topics."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Fact(ConsumerGroupMetadataKey(group_id=group_id), value)


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Fact:
    """Build the record of the target's epoch, with the wall time of its computation; 0 allows the next computation
    at once.
    """
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return Fact(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Fact:
    """Build the record of the matches of a regular expression."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return Fact(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


# Tombstones


def member_tombstone(group_id: str, member_id: str) -> Fact:
    """Build the tombstone of a member's subscription and settings."""
    return Fact(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def current_tombstone(group_id: str, member_id: str) -> Fact:
    """Build the tombstone of a member's current assignment."""
    return Fact(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def target_tombstone(group_id: str, member_id: str) -> Fact:
    """Build the tombstone of a member's target assignment."""
    return Fact(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def regex_tombstone(group_id: str, regex: str) -> Fact:
    """Build the tombstone of an unused regular expression."""
    return Fact(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_tombstone(group_id: str) -> Fact:
    """Build the tombstone of the partition metadata that Kafka wrote up to 4.0."""
    return Fact(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def assignment_epoch_tombstone(group_id: str) -> Fact:
    """Build the tombstone of the target's epoch."""
    return Fact(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def epoch_tombstone(group_id: str) -> Fact:
    """Build the tombstone of the group epoch, which ends the group."""
    return Fact(ConsumerGroupMetadataKey(group_id=group_id), None)


# From records


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """Return the member with the subscription and settings of a record."""
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
    """Return the member with the current assignment of a record."""
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
    """Decode assigned partitions. Records of Kafka before KIP-1251 have no epochs; the member's epoch replaces
    them.
    """
    read: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        if topic.partitions:
            epochs = topic.assignment_epochs
            if epochs is None or len(epochs) != len(topic.partitions):
                epochs = [max(member_epoch, 0)] * len(topic.partitions)
            read[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return read


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> TargetPartitions:
    """Return the target assignment in a record."""
    return {topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions if topic.partitions}


def read_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """Return the matches in a record."""
    return ResolvedRegex(frozenset(map(intern, value.topics)), value.version, value.timestamp)
