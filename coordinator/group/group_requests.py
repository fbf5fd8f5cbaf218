"""What the shell asks of the core in a form of its own, and the union of all that `Shard.handle` takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import WorkDone
from protocol.errors import ErrorCode
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


@dataclass(slots=True)
class FetchOffsets:
    """One group of an OffsetFetch, of any version; topics by name. Answered with an
    OffsetFetchResponseGroup. `require_stable` (KIP-447) asks not to see past pending transactions: a partition that
    has a pending offset is answered UNSTABLE_OFFSET_COMMIT."""

    group: OffsetFetchRequestGroup
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """The end of a producer's transaction, for whatever groups have pending offsets of it: they are committed, or
    dropped. `producer_epoch` and `coordinator_epoch` are those of the marker. Answered with an ErrorCode, NONE also
    where nothing is pending."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The topics are these from now on. Those that are `gone` take along the offsets that groups committed for
    them; another topic may have the name of one already. No reply."""

    image: TopicsImage
    gone: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GroupConfigsChanged:
    """These are a group's own configs from now on, by name, as text, instead of those that it had; none: it has
    none. There need be no group of that id. No reply."""

    group_id: str
    overrides: Mapping[str, str]


# What people ask for, who change what time it is for a group, or for one member


@dataclass(frozen=True, slots=True)
class Acted:
    """The answer to the requests below. UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND: there is no such one; any other
    error: the partition could not be asked."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ExpireMember:
    """The session of a member, or of a pending one, is over now, whatever it waits for: a request of it that is
    parked is answered UNKNOWN_MEMBER_ID. Answered with Acted."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The sessions of these members last at least until a monotonic time. Ids that are no members' are ignored, and
    so is who owes no sign of life. Answered with Acted."""

    group_id: str
    member_ids: Sequence[str]
    until_ms: int


@dataclass(frozen=True, slots=True)
class MoveTimes:
    """The monotonic clock of these groups is set by so much: all that they wait for comes in as much time as was
    left. Every timer of theirs is armed anew, so that a move by 0 tells what is armed. Answered with Acted."""

    group_ids: Sequence[str]
    by_ms: int


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Retention looks at one group as it will be when so much time has passed; at these topics, where some are
    named. Answered with OffsetsGone."""

    group_id: str
    topics: Sequence[str] = ()
    ahead_ms: int = 0


@dataclass(frozen=True, slots=True)
class OffsetsGone(Acted):
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
    | KeepAlive
    | MoveTimes
    | ExpireOffsets
)
