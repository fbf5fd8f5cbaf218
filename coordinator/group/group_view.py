"""Immutable values that describe a group at one moment."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from coordinator.group.event_details import AwaitedMember, MemberName, Trigger
from coordinator.group.group_types import GroupType


class ConsumerMemberView(Struct, frozen=True, kw_only=True):
    """What there is to say of a member of a consumer group besides: where it stands (`state` is that of a
    member), what it has, what it has yet to give up and in `revokes_left_ms`, what it is to have, by topic; those
    that are gone are left out. `topics` are those that it subscribes to, by name or by its expression."""

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
    """A member. `connection_id` is that of its last JoinGroup or heartbeat; 0 when nothing was heard of it since
    the group was loaded. `session_left_ms` is when its session ends unless it is heard before; of a member that
    `is_awaiting_join` or `is_awaiting_sync` (its request is parked) it does not, unless it `is_new`. `metadata` is
    for the selected protocol, or, where none is selected, for its own first one."""

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


class PendingMemberView(Struct, frozen=True, kw_only=True):
    """Who was given a member id `since_ms` ago, over that connection, and has not joined with it; in `left_ms` it
    is forgotten."""

    name: MemberName
    since_ms: int
    left_ms: int
    connection_id: int = 0


class RebalanceView(Struct, frozen=True, kw_only=True):
    """The rebalance that a group is in, or, where it is Stable, the one whose assignment not all have fetched.

    `trigger` began it, `latest` began the last of `attempts`; `open_ms` is since when. `left_ms` is how long the
    present phase lasts at most, 0 when nothing ends it by time; `awaited` are those whose doing it is, nobody in an
    `is_initial` one, which waits for members that may come."""

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
    """A group in few words: its type, its state, and how many members it has."""

    type: GroupType
    state: str
    members: int


class GroupView(Struct, frozen=True, kw_only=True):
    """A group of any type. `state_since_ms` is the wall time at which the state was entered, None when the log did
    not say; `members` are in the order in which they joined; `pending_offsets` is for how many partitions each
    producer has offsets in its transaction, by producer id. Of a consumer group `generation_id` is its epoch, and
    `assignment_epoch` that of its target."""

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
