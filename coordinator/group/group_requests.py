"""Inputs of a shard besides Kafka's requests: commands, notifications and timers."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from coordinator.core.outcome import WorkDone
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
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class FetchOffsets(Struct):
    """One group of an OffsetFetch, of any version; topics by name. Answered with an
    OffsetFetchResponseGroup. `require_stable` (KIP-447) asks not to see past pending transactions: a partition that
    has a pending offset is answered UNSTABLE_OFFSET_COMMIT."""

    group: OffsetFetchRequestGroup
    require_stable: bool = False


class EndTransaction(Struct, frozen=True):
    """The end of a producer's transaction, for whatever groups have pending offsets of it: they are committed, or
    dropped. `producer_epoch` and `coordinator_epoch` are those of the marker. Answered with an ErrorCode, NONE also
    where nothing is pending."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool


class TopicsChanged(Struct, frozen=True):
    """The topics are these from now on. Those that are `gone` take along the offsets that groups committed for
    them; another topic may have the name of one already. No reply."""

    image: TopicsImage
    gone: Sequence[str] = ()


class GroupConfigsChanged(Struct, frozen=True):
    """These are a group's own configs from now on, by name, as text, instead of those that it had; none: it has
    none. There need be no group of that id. No reply."""

    group_id: str
    overrides: Mapping[str, str]


# Commands of operators, who change the time of a group or of one member


class CommandResult(Struct, frozen=True):
    """The answer to the requests below. UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND: there is no such one; any other
    error: the partition could not be asked."""

    error: ErrorCode = ErrorCode.NONE


class ExpireMember(Struct, frozen=True):
    """The session of a member, or of a pending one, is over now, whatever it waits for: a request of it that is
    parked is answered UNKNOWN_MEMBER_ID. Answered with CommandResult."""

    group_id: str
    member_id: str


class ExtendSessions(Struct, frozen=True):
    """The sessions of these members last at least until a monotonic time. Ids that are no members' are ignored, and
    so is who owes no sign of life. Answered with CommandResult."""

    group_id: str
    member_ids: Sequence[str]
    until_ms: int


class ShiftDeadlines(Struct, frozen=True):
    """The monotonic clock of these groups is set by so much: all that they wait for comes in as much time as was
    left. Every timer of theirs is armed anew, so that a move by 0 tells what is armed. Answered with
    CommandResult."""

    group_ids: Sequence[str]
    by_ms: int


class ExpireOffsets(Struct, frozen=True):
    """Retention looks at one group as it will be when so much time has passed; at these topics, where some are
    named. Answered with ExpiredOffsets."""

    group_id: str
    topics: Sequence[str] = ()
    ahead_ms: int = 0


class ExpiredOffsets(CommandResult, frozen=True):
    """Which offsets expired, by topic; whether the group went with the last one."""

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
    """What a timer is for."""

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
    """Names a timer: HEARTBEAT per member (pending ones too), JOIN, SYNC and REPORT per group, EXPIRE_OFFSETS
    and DELETE_OFFSETS per shard; the others per member of a consumer group. What the kind does not need is ""."""

    kind: GroupTimerKind
    group_id: str = ""
    member_id: str = ""

    def __str__(self) -> str:
        return "-".join([self.kind.name.lower(), *(part for part in self[1:] if part)])
