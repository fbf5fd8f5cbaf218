"""Inputs of a shard other than Kafka's requests: commands, notifications and timers."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from coordinator.core.outcome import WorkDone
from coordinator.group.group_config import GroupConfig
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.group_record_schemas import OffsetCommitKey


class PreparedCommit(Struct, frozen=True, eq=False):
    """The parts of an OffsetCommit that stay the same when its client repeats it with other offsets. A shard
    prepares it, and any shard with the same groups may process its repetitions.
    """

    request: OffsetCommitRequest
    """With topics by name, and their ids."""
    places: tuple[tuple[OffsetCommitKey, bytes, int], ...]
    """For each partition: the key of its record, the id of its topic, and the version of the record's value."""
    response: OffsetCommitResponse
    """The response without errors. All repetitions share it: callers must not change it."""
    config: GroupConfig
    """The configuration at the preparation: its limits were checked."""


class RepeatedCommit(NamedTuple):
    """A repetition of an OffsetCommit. Its metadata has the lengths of the first request. Answered with an
    OffsetCommitResponse.
    """

    prepared: PreparedCommit
    offsets: Sequence[int]
    """By partition, in the order of the request."""
    leader_epochs: Sequence[int]
    metadata: Sequence[str]

    def build_request(self) -> OffsetCommitRequest:
        """Return the request that this repetition stands for."""
        changes = zip(self.offsets, self.leader_epochs, self.metadata, strict=True)
        return copy_commit(self.prepared.request, changes)


def copy_commit(request: OffsetCommitRequest, changes: Iterator[tuple[int, int, str]]) -> OffsetCommitRequest:
    """Return a copy of a commit with another offset, leader epoch and metadata for each partition. Empty metadata
    stays empty or null.
    """
    copied = copy(request)
    copied.topics = [copy(topic) for topic in request.topics]
    for topic in copied.topics:
        topic.partitions = [copy(partition) for partition in topic.partitions]
        for partition in topic.partitions:
            partition.committed_offset, partition.committed_leader_epoch, metadata = next(changes)
            partition.committed_metadata = metadata or partition.committed_metadata
    return copied


class FetchOffsets(Struct):
    """One group of an OffsetFetch of any version, with topics by name. Answered with an OffsetFetchResponseGroup.
    With `require_stable` (KIP-447), a partition with a pending transactional offset is answered with
    UNSTABLE_OFFSET_COMMIT.
    """

    group: OffsetFetchRequestGroup
    require_stable: bool = False


class EndTransaction(Struct, frozen=True):
    """The end of a producer's transaction: its pending offsets in all groups are committed, or dropped.
    `producer_epoch` and `coordinator_epoch` are from the marker. Answered with an ErrorCode, which is NONE even
    without pending offsets.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool


class TopicsChanged(Struct, frozen=True):
    """The topics have changed to `image`. Offsets of the deleted topics (`gone`) are removed; new topics may
    already have their names. No reply.
    """

    image: TopicsImage
    gone: Sequence[str] = ()


class GroupConfigsChanged(Struct, frozen=True):
    """The configs of a group have changed to `overrides`: values as text, by config name. The group need not exist.
    No reply.
    """

    group_id: str
    overrides: Mapping[str, str]


# Commands of operators, which change the time of a group or of one member


class CommandResult(Struct, frozen=True):
    """The response to the commands below. UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND: the member or group does not
    exist; any other error: the partition is not available.
    """

    error: ErrorCode = ErrorCode.NONE


class ExpireMember(Struct, frozen=True):
    """End the session of a member, or of a pending one, at once. A parked request of the member is answered with
    UNKNOWN_MEMBER_ID. Answered with CommandResult.
    """

    group_id: str
    member_id: str


class ExtendSessions(Struct, frozen=True):
    """Extend the sessions of members at least until a monotonic time. Ignores unknown ids, and members whose
    session does not run. Answered with CommandResult.
    """

    group_id: str
    member_ids: Sequence[str]
    until_ms: int


class ShiftDeadlines(Struct, frozen=True):
    """The monotonic clocks of groups have moved by `by_ms`: add `by_ms` to all their deadlines, so that the
    remaining times stay the same. The groups arm all their timers again, so `by_ms` 0 reports the armed timers.
    Answered with CommandResult.
    """

    group_ids: Sequence[str]
    by_ms: int


class ExpireOffsets(Struct, frozen=True):
    """Apply retention to one group as if `ahead_ms` had passed, only for `topics` if given. Answered with
    ExpiredOffsets.
    """

    group_id: str
    topics: Sequence[str] = ()
    ahead_ms: int = 0


class ExpiredOffsets(CommandResult, frozen=True):
    """The expired offsets, by topic; and whether the group was deleted with its last offset."""

    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    is_group_deleted: bool = False


Request: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
    | OffsetCommitRequest
    | RepeatedCommit
    | TxnOffsetCommitRequest
    | EndTransaction
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | FetchOffsets
    | TopicsChanged
    | GroupConfigsChanged
    | WorkDone
    | ExpireMember
    | ExtendSessions
    | ShiftDeadlines
    | ExpireOffsets
)


class GroupTimerKind(IntEnum):
    """The purpose of a timer."""

    HEARTBEAT = 0
    JOIN = 1
    SYNC = 2
    EXPIRE_OFFSETS = 3
    REPORT = 4
    CONSUMER_SESSION = 5
    CONSUMER_REBALANCE = 6
    CLASSIC_MEMBER_JOIN = 7
    CLASSIC_MEMBER_SYNC = 8
    DELETE_OFFSETS = 9


class GroupTimerKey(NamedTuple):
    """The key of a timer.

    HEARTBEAT exists per member (pending ones too), JOIN, SYNC and REPORT per group, EXPIRE_OFFSETS and
    DELETE_OFFSETS per shard; the others per member of a consumer group. Unused fields are "".
    """

    kind: GroupTimerKind
    group_id: str = ""
    member_id: str = ""

    def __str__(self) -> str:
        return "-".join([self.kind.name.lower(), *(part for part in self[1:] if part)])
