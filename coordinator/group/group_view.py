"""Immutable values that describe a group at one moment."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec import Struct

from coordinator.group.event_details import AwaitedMember, MemberName, Trigger
from coordinator.group.group_types import GroupType


class ConsumerMemberView(Struct, frozen=True, kw_only=True):
    """The consumer group part of a member's view.

    `state` is the member's state. `assigned`, `pending` and `target` are partitions by topic name: owned ones, ones
    to revoke within `revokes_left_ms`, and the target assignment. They omit deleted topics. `topics` are the
    subscribed topics, by name or by regular expression.
    """

    member_epoch: int
    state: str
    uses_classic_protocol: bool
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str
    topics: frozenset[str]
    assigned: Mapping[str, tuple[int, ...]]
    pending: Mapping[str, tuple[int, ...]]
    target: Mapping[str, tuple[int, ...]]
    revokes_left_ms: int | None


class MemberView(Struct, frozen=True, kw_only=True):
    """A member.

    `connection_id` is the connection of its last JoinGroup or heartbeat, 0 if it has sent none since the group was
    loaded. `session_left_ms` is the rest of its session. The session of a member with a parked request
    (`is_awaiting_join`, `is_awaiting_sync`) does not expire, unless the member `is_new`. `metadata` is for the
    selected protocol, or for its first protocol if none is selected.
    """

    name: MemberName
    connection_id: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    silent_ms: int
    session_left_ms: int
    is_new: bool
    is_awaiting_join: bool
    is_awaiting_sync: bool
    protocols: tuple[str, ...]
    metadata: bytes
    assignment: bytes
    consumer: ConsumerMemberView | None = None


class ClassicMemberIds(NamedTuple):
    """The ids of the members of a classic group, and its pending member ids: live views, to read at once."""

    joined: Collection[str]
    pending: Collection[str]


class PendingMemberView(Struct, frozen=True, kw_only=True):
    """A client with a pending member id, assigned `since_ms` ago over `connection_id`. It expires in `left_ms`."""

    name: MemberName
    since_ms: int
    left_ms: int
    connection_id: int = 0


class RebalanceView(Struct, frozen=True, kw_only=True):
    """The rebalance of a group, or, in a Stable group, the last one while members have not fetched their
    assignment.

    `trigger` started it, `latest` started the last of `attempts`, and it has lasted `open_ms`. The present phase
    lasts at most `left_ms`, 0 if no timeout ends it. `awaited` are the members that the group waits for; it is
    empty if `is_initial`, when the group waits for further members to join.
    """

    trigger: Trigger
    latest: Trigger
    attempts: int
    from_state: str
    open_ms: int
    phase_ms: int
    left_ms: int
    is_initial: bool
    awaited: tuple[AwaitedMember, ...]


class GroupStatus(NamedTuple):
    """The type of a group, its state, and its number of members."""

    type: GroupType
    state: str
    members: int


class GroupView(Struct, frozen=True, kw_only=True):
    """A group of any type.

    `state_since_ms` is the wall time of the last change of state, None if the log does not have it. `members` are
    in the order of joining. `pending_offsets` counts the partitions with pending transactional offsets by producer
    id. For a consumer group `generation_id` is the group epoch and `assignment_epoch` the epoch of its target
    assignment.
    """

    group_id: str
    type: GroupType
    state: str
    state_since_ms: int | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    members: tuple[MemberView, ...]
    pending: tuple[PendingMemberView, ...]
    rebalance: RebalanceView | None
    pending_offsets: Mapping[int, int] = {}
    assignment_epoch: int | None = None
