"""API models of groups, members and committed offsets.

Names are snake_case, with the unit at the end. Null means that a field does not apply or that its value is
unknown.
"""

from msgspec import Struct

from coordinator.core.wire_name import wire_name


@wire_name("ConsumerMemberDescription")
class ConsumerMemberDescription(Struct, frozen=True, kw_only=True):
    """Further fields of a member of a consumer group (KIP-848). `revoking` are the partitions that it has to
    revoke within `revokes_left_ms`, or before its session ends if that is null. `target` is its target assignment
    by topic."""

    member_epoch: int
    state: str
    uses_classic_protocol: bool
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str
    revoking: dict[str, list[int]]
    revokes_left_ms: int | None
    target: dict[str, list[int]]


@wire_name("MemberDescription")
class MemberDescription(Struct, frozen=True, kw_only=True):
    """A member.

    - `is_connected`: it has an open connection, as far as groupd knows.
    - `connection_closed_ms_ago`: the time since its connection closed, null for an open connection or an unknown
      time.
    - `silent_ms`: the time since its last request.
    - `awaits`: its parked request (JoinGroup, SyncGroup), null without one.
    - `subscription` and `assignment` (partitions by topic): null if they are not of the consumer protocol.
    - `is_subscription_too_large`: the subscription is too large to decode, and `subscription` is null.
    - `consumer`: null except in consumer groups.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    is_connected: bool
    connection_closed_ms_ago: int | None
    silent_ms: int
    session_left_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    awaits: str | None
    protocols: list[str]
    subscription: list[str] | None
    assignment: dict[str, list[int]] | None
    consumer: ConsumerMemberDescription | None = None
    is_subscription_too_large: bool = False


@wire_name("PendingMemberDescription")
class PendingMemberDescription(Struct, frozen=True, kw_only=True):
    """A client that got a member id `since_ms` ago and has not joined yet. The id expires in `left_ms`."""

    member_id: str
    client_id: str
    client_host: str
    since_ms: int
    left_ms: int


@wire_name("AwaitedDescription")
class AwaitedDescription(Struct, frozen=True, kw_only=True):
    """A member that a group waits for. `request` is the request that the member has yet to send."""

    member_id: str
    client_id: str
    request: str
    silent_ms: int
    session_left_ms: int
    left_ms: int
    is_connected: bool


@wire_name("RebalanceDescription")
class RebalanceDescription(Struct, frozen=True, kw_only=True):
    """The rebalance of a group. `left_ms` is the maximum remaining time of its phase, 0 without a time limit.
    `is_initial`: the group waits for further members (group.initial.rebalance.delay.ms)."""

    cause: str
    reason: str
    actor: str | None
    attempts: int
    from_state: str
    open_ms: int
    phase_ms: int
    left_ms: int
    is_initial: bool
    awaited: list[AwaitedDescription]


@wire_name("GroupSummary")
class GroupSummary(Struct, frozen=True, kw_only=True):
    """The summary of a group in a list."""

    group_id: str
    type: str
    state: str
    protocol_type: str | None
    generation_id: int
    members: int


@wire_name("GroupDescription")
class GroupDescription(Struct, frozen=True, kw_only=True):
    """A group. `unowned` are the partitions of subscribed topics without an owner in a Stable group, by topic. In
    a consumer group `generation_id` is the group epoch and `assignment_epoch` the epoch of the target; the latter
    is null for other groups."""

    group_id: str
    type: str
    state: str
    state_since_ms: int | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str | None
    offsets_partition: int
    members: list[MemberDescription]
    pending: list[PendingMemberDescription]
    rebalance: RebalanceDescription | None
    unowned: dict[str, list[int]]
    assignment_epoch: int | None = None


@wire_name("OffsetDescription")
class OffsetDescription(Struct, frozen=True, kw_only=True):
    """The progress of a group in one partition. `offset` is the committed offset, or null. `log_start_offset` and
    `end_offset` are null if the partition does not exist, its log is offline, or another broker leads it. `lag`
    is null without a known offset or end. `member_id` is the assigned member, or null."""

    topic: str
    partition: int
    offset: int | None
    metadata: str
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    member_id: str | None


@wire_name("GroupOffsets")
class GroupOffsets(Struct, frozen=True, kw_only=True):
    """The offsets of a group by topic and partition, also for assigned partitions without a commit. `lag` is
    the sum of the known lags, or null without any."""

    group_id: str
    state: str
    lag: int | None
    offsets: list[OffsetDescription]


@wire_name("OffsetChange")
class OffsetChange(Struct, frozen=True, kw_only=True):
    """The change of one committed offset from `before` to `offset`. `before` is null without a previous
    commit."""

    topic: str
    partition: int
    before: int | None
    offset: int


@wire_name("OffsetChanges")
class OffsetChanges(Struct, frozen=True, kw_only=True):
    """The changes of offsets, by topic and partition; a dry run changes nothing."""

    group_id: str
    dry_run: bool
    offsets: list[OffsetChange]
