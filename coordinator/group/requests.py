"""What the shell asks of the core in a form of its own, and the union of all that `Shard.handle` takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.group.topics_image import TopicsImage
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


@dataclass(slots=True)
class FetchOffsets:
    """One group of an OffsetFetch, of any version; topics by name. Answered with an
    OffsetFetchResponseGroup. `require_stable` (KIP-447) asks not to see past pending transactions."""

    group: OffsetFetchRequestGroup
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The topics are these from now on. Those that are `gone` take along the offsets that groups committed for
    them; another topic may have the name of one already. No reply."""

    image: TopicsImage
    gone: Sequence[str] = ()


Request: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | FetchOffsets
    | TopicsChanged
)
