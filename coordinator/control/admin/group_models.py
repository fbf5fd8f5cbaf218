"""API models of groups, members and committed offsets.

Names are snake_case, with the unit at the end. Null means that a field does not apply or that its value is
unknown.
"""

from msgspec import Struct

from coordinator.core.wire_name import wire_name


@wire_name("ConsumerMemberDescription")
class ConsumerMemberDescription(Struct, frozen=True, kw_only=True):
    """A member of a consumer group (KIP-848) besides: its epoch and where it stands; what it has yet to give up
    (until in `revokes_left_ms`, null: nothing ends that but its session), and what it is to have, by topic."""

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
    """A member. `is_connected`: whether it has a connection, as far as can be seen; `connection_closed_ms_ago`:
    since when it has none. `awaits`: its request that is parked (JoinGroup, SyncGroup). `subscription` and
    `assignment` (partitions by topic) are null where they are none of the consumer protocol's; `consumer` is, but
    in consumer groups. A subscription that is too large to be decoded is null too, and
    `is_subscription_too_large` says so."""

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
    """Who was given a member id `since_ms` ago and has not joined with it; in `left_ms` it is forgotten."""

    member_id: str
    client_id: str
    client_host: str
    since_ms: int
    left_ms: int


@wire_name("AwaitedDescription")
class AwaitedDescription(Struct, frozen=True, kw_only=True):
    """One whom a group waits for; `request` is what it has yet to send."""

    member_id: str
    client_id: str
    request: str
    silent_ms: int
    session_left_ms: int
    left_ms: int
    is_connected: bool


@wire_name("RebalanceDescription")
class RebalanceDescription(Struct, frozen=True, kw_only=True):
    """The rebalance that a group is in. `left_ms`: how long its present phase lasts at most, 0 when nothing ends it
    by time; `is_initial`: it waits for members that may come (group.initial.rebalance.delay.ms)."""

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
    """A group in a list."""

    group_id: str
    type: str
    state: str
    protocol_type: str | None
    generation_id: int
    members: int


@wire_name("GroupDescription")
class GroupDescription(Struct, frozen=True, kw_only=True):
    """A group. `unowned` are partitions of subscribed topics that nobody has in a Stable group, by topic. Of a
    consumer group `generation_id` is its epoch, and `assignment_epoch` that of its target; null for others."""

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
    """How far a group is in one partition. `offset` is the next record to read, null where nothing was committed;
    `log_start_offset` and `end_offset` are where the partition begins and ends for consumers, null where there is
    no such partition any more, its log does not work, or another broker has it; `lag` is what is left to read, null
    where one of them is not known. `member_id` is who was assigned the partition, null for nobody."""

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
    """The offsets of a group, and of partitions that its members were assigned and committed nothing for; by topic
    and partition. `lag` is the sum of those that are known, null where none is."""

    group_id: str
    state: str
    lag: int | None
    offsets: list[OffsetDescription]


@wire_name("OffsetChange")
class OffsetChange(Struct, frozen=True, kw_only=True):
    """What became of one offset; `before` is null where nothing had been committed."""

    topic: str
    partition: int
    before: int | None
    offset: int


@wire_name("OffsetChanges")
class OffsetChanges(Struct, frozen=True, kw_only=True):
    """What became of some, by topic and partition; nothing where it was a dry run."""

    group_id: str
    dry_run: bool
    offsets: list[OffsetChange]
