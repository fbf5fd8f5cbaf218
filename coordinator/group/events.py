"""Facts worth telling, one class each: the ledger, the log lines and the metrics are made from these.

They carry what Kafka's coordinator says in its log, and the reason in Kafka's words where it has one. Nobody
changes an event; that they are not frozen is because freezing triples what it costs to make one, and every
commit makes one.
"""

from enum import StrEnum

from coordinator.machine.outcome import Event as MachineEvent
from protocol.errors import ErrorCode
from protocol.slotted import slotted


@slotted
class Event(MachineEvent):
    """Something happened to a group."""

    group_id: str


class RebalanceCause(StrEnum):
    """Why a rebalance started, as a word; the event's `reason` has the whole sentence."""

    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader rejoined"
    METADATA_CHANGED = "metadata changed"
    STATIC_MEMBER_REPLACED = "static member replaced"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    SYNC_EXPIRED = "sync expired"
    OVER_CAPACITY = "over capacity"
    ASSIGNMENT_TOO_LARGE = "assignment too large"


@slotted
class MemberIdRequired(Event):
    """A dynamic member without an id was given one, to join again with (KIP-394)."""

    member_id: str
    state: str


@slotted
class MemberJoined(Event):
    """A member was added. `pending` says that it came back with the id that it had been given; `state` is
    the group's when it came."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    state: str
    pending: bool


@slotted
class JoinRefused(Event):
    """A JoinGroup was answered with an error."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode
    state: str


@slotted
class StaticMemberReplaced(Event):
    """A restarted static member took over the place of its predecessor (KIP-345)."""

    group_instance_id: str
    old_member_id: str
    member_id: str
    state: str


@slotted
class RebalanceAvoided(Event):
    """A static member came back to a Stable group without changing the selected protocol."""

    group_instance_id: str
    member_id: str
    generation_id: int


@slotted
class RebalanceStarted(Event):
    """The group prepares to rebalance. `state` is the one it was in, `generation_id` the old one."""

    state: str
    generation_id: int
    cause: RebalanceCause
    reason: str


@slotted
class RebalanceDelayed(Event):
    """New members came while the first rebalance waited: it waits `delay_ms` more."""

    delay_ms: int


@slotted
class RebalanceStalled(Event):
    """No member rejoined, but silent static members are left: the join phase goes on."""

    generation_id: int
    members: int


@slotted
class GroupStabilized(Event):
    """The join phase is over: a generation with these members waits for its leader's assignment."""

    generation_id: int
    members: int
    leader_id: str
    protocol_name: str


@slotted
class AssignmentReceived(Event):
    """The leader handed in the assignment. `missing` are the members that it left out: they get none."""

    leader_id: str
    generation_id: int
    members: int
    static_members: int
    missing: tuple[str, ...]


@slotted
class AssignmentApplied(Event):
    """The group is Stable."""

    generation_id: int
    members: int


@slotted
class GroupEmptied(Event):
    """A generation without members."""

    generation_id: int


@slotted
class MemberLeft(Event):
    """A LeaveGroup removed a member; a `pending` one had not joined yet."""

    member_id: str
    group_instance_id: str | None
    reason: str
    pending: bool


@slotted
class MemberExpired(Event):
    """Nothing was heard from a member for its session timeout (a new one: its join did not complete)."""

    member_id: str
    group_instance_id: str | None
    pending: bool


@slotted
class MembersEvicted(Event):
    """Members that did not rejoin ("join") or did not ask for their assignment ("sync") in time."""

    member_ids: tuple[str, ...]
    phase: str


@slotted
class LeaderReplaced(Event):
    """The leader did not rejoin in time; another member leads."""

    old_leader_id: str
    leader_id: str


@slotted
class MemberFenced(Event):
    """A member used a group instance id that now belongs to `existing_member_id`."""

    member_id: str
    group_instance_id: str
    existing_member_id: str
    operation: str


@slotted
class SubscriptionUnreadable(Event):
    """The group's metadata is no consumer subscription: which topics it reads is not known."""

    protocol_name: str


@slotted
class SimpleGroupCreated(Event):
    """Offsets were committed for a group that did not exist, by a consumer without group management."""


@slotted
class OffsetsCommitted(Event):
    """Offsets of this many partitions were stored; `member_id` is "" for simple consumers."""

    member_id: str
    partitions: int


@slotted
class CommitRefused(Event):
    """A commit was refused whole (`partitions` of them), or some of its partitions were."""

    member_id: str
    generation_id: int
    error: ErrorCode
    partitions: int
    state: str


@slotted
class OffsetsDeleted(Event):
    """Offsets were removed by request, or because their topic was deleted."""

    partitions: int
    reason: str


@slotted
class OffsetsExpired(Event):
    """Offsets outlived offsets.retention.minutes."""

    partitions: int


@slotted
class GroupDeleted(Event):
    """The group is gone, with this many offsets; the reason is "request" or "retention"."""

    offsets: int
    reason: str


@slotted
class GroupLoaded(Event):
    """The group was read back from the log."""

    state: str
    generation_id: int
    members: int
