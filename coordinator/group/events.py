"""Facts worth telling, one class each: the ledger, the log lines and the metrics are made from these.

They carry what Kafka's coordinator says in its log, and the reason in Kafka's words where it has one. Nobody
changes an event; that they are not frozen is because each class would have to say so.
"""

from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Assigned, Awaited, Departure, Trigger
from coordinator.group.refusal_facts import RefusalDetail
from coordinator.machine.outcome import Event as MachineEvent
from protocol.errors import ErrorCode


class Event(MachineEvent):
    """Something happened to a group."""

    group_id: str


class MemberIdRequired(Event):
    """A dynamic member without an id was given one, to join again with (KIP-394)."""

    member_id: str
    state: str


class MemberJoined(Event):
    """A member was added. `pending` says that it came back with the id that it had been given; `state` is
    the group's when it came."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    state: str
    pending: bool


class Refused(Event):
    """A request was answered with an error. `member_id` is "" for who has none yet; `state` is the group's, ""
    where there is none or nobody looked; `detail` is None where there is no more to say, or where MemberFenced
    says it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    error: ErrorCode
    state: str
    detail: RefusalDetail | None


class JoinRefused(Refused):
    """A JoinGroup was answered with an error."""


class SyncRefused(Refused):
    """A SyncGroup was; not when that was REBALANCE_IN_PROGRESS, which tells a member to rejoin."""


class HeartbeatRefused(Refused):
    """A Heartbeat was; not when that was REBALANCE_IN_PROGRESS, which tells a member to rejoin."""


class CommitRefused(Refused):
    """An OffsetCommit in the name of `generation_id` was refused whole (`partitions` of them), or some of its
    partitions were."""

    generation_id: int
    partitions: int


class StaticMemberReplaced(Event):
    """A restarted static member took over the place of its predecessor (KIP-345)."""

    group_instance_id: str
    old_member_id: str
    member_id: str
    client_id: str
    client_host: str
    state: str


class RebalanceAvoided(Event):
    """A static member came back to a Stable group without changing the selected protocol."""

    group_instance_id: str
    member_id: str
    generation_id: int


class RebalanceStarted(Event):
    """The group prepares to rebalance. `state` is the one it was in, `generation_id` the old one."""

    state: str
    generation_id: int
    trigger: Trigger


class RebalanceWaits(Event):
    """A rebalance goes on, or a Stable generation has members that have not asked for their assignment.

    It does so for `waited_ms` now, and for `left_ms` more at most. `awaited` are those whose doing it is;
    nobody in an `is_initial` one, which waits for members that may come. `members` counts those of the group,
    `attempts` how often the rebalance began; `trigger` is None in a Stable group."""

    state: str
    generation_id: int
    trigger: Trigger | None
    attempts: int
    waited_ms: int
    left_ms: int
    members: int
    awaited: tuple[Awaited, ...]
    is_initial: bool


class RebalanceCompleted(Event):
    """A rebalance is over: the group is Stable, or Empty.

    `trigger` began it; where it began again before it came to an end, `attempts` counts and `latest` is the last
    trigger. Times are monotonic; between them the group was in join phases for `join_ms` and in sync phases for
    `sync_ms`. `last_joined` is whose JoinGroup ended the last join phase, None when something else did (a
    timeout, a departure, the initial delay). `members` are those of the generation, with what they got; `gone`
    are those of the last Stable one that are none any more."""

    state: str
    from_state: str
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    trigger: Trigger
    latest: Trigger
    attempts: int
    started_ms: int
    ended_ms: int
    join_ms: int
    sync_ms: int
    last_joined: MemberName | None
    members: tuple[Assigned, ...]
    gone: tuple[Departure, ...]


class RebalanceDelayed(Event):
    """New members came while the first rebalance waited: it waits `delay_ms` more."""

    delay_ms: int


class RebalanceStalled(Event):
    """No member rejoined, but silent static members are left: the join phase goes on."""

    generation_id: int
    members: int


class GroupStabilized(Event):
    """The join phase is over: a generation with these members waits for its leader's assignment."""

    generation_id: int
    members: int
    leader_id: str
    protocol_name: str


class AssignmentReceived(Event):
    """The leader handed in the assignment. `missing` are the members that it left out: they get none."""

    leader_id: str
    generation_id: int
    members: int
    static_members: int
    missing: tuple[str, ...]


class AssignmentApplied(Event):
    """The group is Stable."""

    generation_id: int
    members: int


class GroupEmptied(Event):
    """A generation without members."""

    generation_id: int


class MemberLeft(Event):
    """A LeaveGroup removed a member; a `pending` one had not joined yet. It came from `sender_id` at
    `sender_host`, which is the member's own client unless an operator sends it away."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str
    pending: bool
    sender_id: str
    sender_host: str


class MemberExpired(Event):
    """Nothing was heard from a member for its session timeout. A `pending` one did not come back with its
    member id in that time; an `is_new` one waited for its first generation as long as a new member may."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    pending: bool
    is_new: bool
    silent_ms: int
    timeout_ms: int


class MembersEvicted(Event):
    """Members that did not rejoin ("join") or did not ask for their assignment ("sync") in time."""

    members: tuple[MemberName, ...]
    phase: str


class LeaderReplaced(Event):
    """The leader did not rejoin in time; another member leads."""

    old_leader_id: str
    leader_id: str


class MemberFenced(Event):
    """A member used a group instance id that now belongs to `existing`. `operation` is Kafka's word for the
    request."""

    member_id: str
    group_instance_id: str
    client_id: str
    client_host: str
    existing: MemberName
    operation: str


class SubscriptionUnreadable(Event):
    """The group's metadata is no consumer subscription: which topics it reads is not known."""

    protocol_name: str


class SimpleGroupCreated(Event):
    """Offsets were committed for a group that did not exist, by a consumer without group management."""


class OffsetsCommitted(Event):
    """Offsets of this many partitions were stored; `member_id` is "" for simple consumers."""

    member_id: str
    partitions: int


class OffsetsDeleted(Event):
    """Offsets were removed by request, or because their topic was deleted."""

    partitions: int
    reason: str


class OffsetsExpired(Event):
    """Offsets outlived offsets.retention.minutes."""

    partitions: int


class GroupDeleted(Event):
    """The group is gone, with this many offsets; the reason is "request" or "retention"."""

    offsets: int
    reason: str


class GroupLoaded(Event):
    """The group was read back from the log."""

    state: str
    generation_id: int
    members: int
