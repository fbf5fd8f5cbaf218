"""Facts worth telling, one class each: the ledger, the log lines and the metrics are made from these.

They carry what Kafka's coordinator says in its log, and the reason in Kafka's words where it has one. Who observes
them reads of every event alike which group, generation and member it is about; its number and its time come with it
from the engine. Nobody changes an event; that they are not frozen is because each class would have to say so.
"""

from typing import NamedTuple

from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Assigned, Awaited, Departure, Trigger
from coordinator.group.refusal_facts import RefusalDetail, RefusedOffset
from coordinator.machine.outcome import Event as MachineEvent
from protocol.errors import ErrorCode


class SkippedOffset(NamedTuple):
    """An offset of a committed transaction, and the one that counts instead."""

    topic: str
    partition: int
    offset: int
    committed: int


class GroupEvent(MachineEvent):
    """Something happened to a group."""

    group_id: str


class Event(GroupEvent, kw_only=True):
    """Something happened to a group. `generation_id` is the group's when it did, or that in whose name it was asked
    for; `member` is whom it is about, or whose doing it was, with the client that said so. None: it is about the
    group's offsets or its end, or about nobody in particular."""

    generation_id: int | None = None
    member: MemberName | None = None


class GenerationEvent(Event):
    """Something happened to who is in a group."""

    generation_id: int


class MemberEvent(GenerationEvent):
    """A member did something, or something was done to it."""

    member: MemberName


class MemberIdRequired(MemberEvent):
    """A dynamic member without an id was given one, to join again with (KIP-394)."""

    state: str


class MemberJoined(MemberEvent):
    """A member was added. `pending` says that it came back with the id that it had been given; `state` is
    the group's when it came."""

    state: str
    pending: bool


class MemberRejoined(MemberEvent):
    """A member came to the join phase, or begins one. `state` is the group's when it came."""

    state: str


class MemberToldToRejoin(MemberEvent):
    """A member learns from the answer REBALANCE_IN_PROGRESS that it has to join again. `operation` is Kafka's word
    for the request."""

    operation: str


class Refused(Event):
    """A request was answered with an error. `generation_id` is that in whose name it was sent, None where it names
    none; the id of `member` is "" for who has none yet. `state` is the group's, "" where there is none or nobody
    looked; `detail` is None where there is no more to say, or where MemberFenced says it; `partitions` is how many
    of its partitions were refused, None where it has none; `offsets` are the first of these, where the group
    refused the commit of its sender."""

    generation_id: int | None
    member: MemberName
    error: ErrorCode
    state: str
    detail: RefusalDetail | None
    partitions: int | None
    offsets: tuple[RefusedOffset, ...] = ()


class JoinRefused(Refused):
    """A JoinGroup was answered with an error."""


class SyncRefused(Refused):
    """A SyncGroup was; not when that was REBALANCE_IN_PROGRESS, of which MemberToldToRejoin tells."""


class HeartbeatRefused(Refused):
    """A Heartbeat was; not when that was REBALANCE_IN_PROGRESS, of which MemberToldToRejoin tells."""


class CommitRefused(Refused):
    """An OffsetCommit was refused, or some of its partitions were; in a transaction, a TxnOffsetCommit."""

    is_transactional: bool = False


class StaticMemberReplaced(MemberEvent):
    """A restarted static member took over the place of its predecessor (KIP-345)."""

    old_member_id: str
    state: str


class RebalanceAvoided(MemberEvent):
    """A static member came back to a Stable group without changing the selected protocol."""


class RebalanceStarted(GenerationEvent):
    """The group prepares to rebalance. `state` is the one it was in, `generation_id` the old one; `member` is the
    trigger's actor; `members` are those of the group, who have to rejoin unless they have just done so."""

    state: str
    trigger: Trigger
    members: tuple[MemberName, ...] = ()


class RebalanceWaits(GenerationEvent):
    """A rebalance goes on, or a Stable generation has members that have not asked for their assignment.

    It does so for `waited_ms` now, and for `left_ms` more at most. `awaited` are those whose doing it is;
    nobody in an `is_initial` one, which waits for members that may come. `members` counts those of the group,
    `attempts` how often the rebalance began; `trigger` is None in a Stable group."""

    state: str
    trigger: Trigger | None
    attempts: int
    waited_ms: int
    left_ms: int
    members: int
    awaited: tuple[Awaited, ...]
    is_initial: bool


class RebalanceCompleted(GenerationEvent):
    """A rebalance is over: the group is Stable, or Empty.

    `trigger` began it, `member` is its actor; where it began again before it came to an end, `attempts` counts
    and `latest` is the last trigger. Times are monotonic; between them the group was in join phases for `join_ms`
    and in sync phases for `sync_ms`. `last_joined` is whose JoinGroup ended the last join phase, None when
    something else did (a timeout, a departure, the initial delay). `members` are those of the generation, with what
    they had and got; `gone` are those of the last Stable one that are none any more. `subscribed_topics` are those
    of all members, None where that is not known."""

    state: str
    from_state: str
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
    subscribed_topics: tuple[str, ...] | None = None


class RebalanceDelayed(GenerationEvent):
    """New members came while the first rebalance waited: it waits `delay_ms` more."""

    delay_ms: int


class RebalanceStalled(GenerationEvent):
    """No member rejoined, but silent static members are left: the join phase goes on."""

    members: int


class GroupStabilized(GenerationEvent):
    """The join phase is over: a generation with these members waits for its leader's assignment."""

    members: int
    leader_id: str
    protocol_name: str


class SyncReceived(MemberEvent):
    """A member asks for its assignment, which is not there yet; the leader brings it."""


class AssignmentReceived(MemberEvent):
    """The leader handed in the assignment. `missing` are the members that it left out: they get none; `strangers`
    are ids in it that are no member's."""

    members: int
    static_members: int
    missing: tuple[str, ...]
    strangers: tuple[str, ...]


class AssignmentApplied(GenerationEvent):
    """The group is Stable."""

    members: int


class AssignmentFetched(MemberEvent):
    """A member is told its assignment."""


class GroupEmptied(GenerationEvent):
    """A generation without members."""


class MemberLeft(MemberEvent):
    """A LeaveGroup removed a member; a `pending` one had not joined yet. It came from `sender_id` at
    `sender_host`, which is the member's own client unless an operator sends it away."""

    reason: str
    pending: bool
    sender_id: str
    sender_host: str


class MemberExpired(MemberEvent):
    """Nothing was heard from a member for its session timeout. A `pending` one did not come back with its
    member id in that time; an `is_new` one waited for its first generation as long as a new member may.
    `connection_id` is that of its last JoinGroup, or of a later heartbeat, 0 where that is not known."""

    pending: bool
    is_new: bool
    silent_ms: int
    timeout_ms: int
    connection_id: int = 0


class MembersEvicted(GenerationEvent):
    """Members that did not rejoin ("join") or did not ask for their assignment ("sync") in time. For each of them,
    how long nothing had been heard of it, and its connection, as for MemberExpired."""

    members: tuple[MemberName, ...]
    phase: str
    silent_ms: tuple[int, ...] = ()
    connection_ids: tuple[int, ...] = ()


class LeaderReplaced(MemberEvent):
    """The leader did not rejoin in time; another member leads."""

    old_leader_id: str


class MemberFenced(MemberEvent):
    """A member used a group instance id that belongs to the member id `existing` now. `operation` is Kafka's word
    for the request. Which client is behind the other id is not told: a static member that was replaced keeps the
    client id and host of its predecessor, as in Kafka."""

    existing: str
    operation: str


class SubscriptionUnreadable(GenerationEvent):
    """The group's metadata is no consumer subscription: which topics it reads is not known."""

    protocol_name: str


class SimpleGroupCreated(Event):
    """Offsets were committed for a group that did not exist, by a consumer without group management."""


class OffsetsCommitted(Event):
    """Offsets of this many partitions were stored; `member_id` is "" for simple consumers. Made for every commit,
    and therefore of no more than lies at hand."""

    member_id: str
    partitions: int


class OffsetsPending(Event):
    """Offsets of this many partitions wait for the end of a producer's transaction; `member_id` is "" for who named
    no member. Made for every such commit, and therefore of no more than lies at hand."""

    member_id: str
    producer_id: int
    partitions: int


class TransactionEnded(Event):
    """A producer's transaction ended that had pending offsets of the group, so that these are committed, or, where
    it was aborted, dropped. `partitions` does not count what OffsetsSkipped tells of."""

    producer_id: int
    is_committed: bool
    partitions: int


class OffsetsSkipped(Event):
    """A producer's transaction was committed, but not its offsets of this many partitions: newer ones were
    committed meanwhile. `offsets` are the first of these."""

    producer_id: int
    partitions: int
    offsets: tuple[SkippedOffset, ...]


class MixedCommits(Event):
    """A group commits offsets of a partition in transactions and outside of them, so that which of them counts
    depends on which record is later in the log, not on when it began to count. `is_transactional` is what the
    commit was that came to the other kind. Told once for each group and load, of the first such partition."""

    member_id: str
    topic: str
    partition: int
    is_transactional: bool


class OffsetsDeleted(Event):
    """Offsets were removed by request, or because their topic was deleted."""

    partitions: int
    reason: str


class OffsetsExpired(Event):
    """Offsets outlived offsets.retention.minutes."""

    partitions: int


class GroupDeleted(Event):
    """The group is gone, with this many offsets; the reason is "request" or "retention". A request names its client
    in `member`, without a member id. `expired_offsets` counts the offsets that retention removed just before."""

    offsets: int
    reason: str
    expired_offsets: int = 0


class GroupLoaded(GenerationEvent):
    """The group was read back from the log; `type` is its type's name."""

    state: str
    members: int
    type: str = "classic"
