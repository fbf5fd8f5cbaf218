"""Events of groups: one class for each. Log lines, metrics, the ledger and the event stream are made of them."""

from enum import StrEnum
from typing import NamedTuple

from coordinator.core.outcome import MachineEvent
from coordinator.core.wire_name import wire_name
from coordinator.group.consumer.consumer_member import NO_TARGET, TargetPartitions
from coordinator.group.event_details import (
    AwaitedMember,
    Departure,
    MemberAssignment,
    MemberName,
    RefusalDetail,
    RefusedOffset,
    Trigger,
)
from protocol.error_codes import ErrorCode


class SkippedOffset(NamedTuple):
    """An offset of a committed transaction, and the one that counts instead."""

    topic: str
    partition: int
    offset: int
    committed: int


class GroupIdEvent(MachineEvent):
    """Something happened to a group."""

    group_id: str


class GroupEvent(GroupIdEvent, kw_only=True):
    """Something happened to a group. `generation_id` is the group's when it did, or that in whose name it was asked
    for; `member` is whom it is about, or whose doing it was, with the client that said so. None: it is about the
    group's offsets or its end, or about nobody in particular."""

    generation_id: int | None = None
    member: MemberName | None = None


class GenerationEvent(GroupEvent):
    """Something happened to who is in a group."""

    generation_id: int


class MemberEvent(GenerationEvent):
    """A member did something, or something was done to it."""

    member: MemberName


@wire_name("MemberIdRequired")
class MemberIdRequired(MemberEvent):
    """A dynamic member without an id was given one, to join again with (KIP-394)."""

    state: str


@wire_name("MemberJoined")
class MemberJoined(MemberEvent):
    """A member was added. `pending` says that it came back with the id that it had been given; `state` is
    the group's when it came."""

    state: str
    pending: bool


@wire_name("MemberRejoined")
class MemberRejoined(MemberEvent):
    """A member came to the join phase, or begins one. `state` is the group's when it came."""

    state: str


@wire_name("MemberToldToRejoin")
class MemberToldToRejoin(MemberEvent):
    """A member learns from the answer REBALANCE_IN_PROGRESS that it has to join again. `operation` is Kafka's word
    for the request."""

    operation: str


class RequestRefused(GroupEvent):
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


@wire_name("JoinRefused")
class JoinRefused(RequestRefused):
    """A JoinGroup was answered with an error."""


@wire_name("SyncRefused")
class SyncRefused(RequestRefused):
    """A SyncGroup was; not when that was REBALANCE_IN_PROGRESS, of which MemberToldToRejoin tells."""


@wire_name("HeartbeatRefused")
class HeartbeatRefused(RequestRefused):
    """A Heartbeat was; not when that was REBALANCE_IN_PROGRESS, of which MemberToldToRejoin tells."""


@wire_name("CommitRefused")
class CommitRefused(RequestRefused):
    """An OffsetCommit was refused, or some of its partitions were; in a transaction, a TxnOffsetCommit."""

    is_transactional: bool = False


@wire_name("StaticMemberReplaced")
class StaticMemberReplaced(MemberEvent):
    """A restarted static member took over the place of its predecessor (KIP-345)."""

    old_member_id: str
    state: str


@wire_name("RebalanceAvoided")
class RebalanceAvoided(MemberEvent):
    """A static member came back to a Stable group without changing the selected protocol."""


@wire_name("RebalanceStarted")
class RebalanceStarted(GenerationEvent):
    """The group prepares to rebalance. `state` is the one it was in, `generation_id` the old one; `member` is the
    trigger's actor; `members` are those of the group, who have to rejoin unless they have just done so."""

    state: str
    trigger: Trigger
    members: tuple[MemberName, ...] = ()


@wire_name("RebalanceWaits")
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
    awaited: tuple[AwaitedMember, ...]
    is_initial: bool


@wire_name("RebalanceCompleted")
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
    members: tuple[MemberAssignment, ...]
    gone: tuple[Departure, ...]
    subscribed_topics: tuple[str, ...] | None = None


@wire_name("RebalanceDelayed")
class RebalanceDelayed(GenerationEvent):
    """New members came while the first rebalance waited: it waits `delay_ms` more."""

    delay_ms: int


@wire_name("RebalanceStalled")
class RebalanceStalled(GenerationEvent):
    """No member rejoined, but silent static members are left: the join phase goes on."""

    members: int


@wire_name("GroupStabilized")
class GroupStabilized(GenerationEvent):
    """The join phase is over: a generation with these members waits for its leader's assignment."""

    members: int
    leader_id: str
    protocol_name: str


@wire_name("SyncReceived")
class SyncReceived(MemberEvent):
    """A member asks for its assignment, which is not there yet; the leader brings it."""


@wire_name("AssignmentReceived")
class AssignmentReceived(MemberEvent):
    """The leader handed in the assignment. `missing` are the members that it left out: they get none; `strangers`
    are ids in it that are no member's."""

    members: int
    static_members: int
    missing: tuple[str, ...]
    strangers: tuple[str, ...]


@wire_name("AssignmentApplied")
class AssignmentApplied(GenerationEvent):
    """The group is Stable."""

    members: int


@wire_name("AssignmentFetched")
class AssignmentFetched(MemberEvent):
    """A member is told its assignment."""


@wire_name("GroupEmptied")
class GroupEmptied(GenerationEvent):
    """A generation without members."""


@wire_name("MemberLeft")
class MemberLeft(MemberEvent):
    """A LeaveGroup removed a member; a `pending` one had not joined yet. It came from `sender_id` at
    `sender_host`, which is the member's own client unless an operator sends it away."""

    reason: str
    pending: bool
    sender_id: str
    sender_host: str


@wire_name("MemberExpired")
class MemberExpired(MemberEvent):
    """Nothing was heard from a member for its session timeout. A `pending` one did not come back with its
    member id in that time; an `is_new` one waited for its first generation as long as a new member may.
    `connection_id` is that of its last JoinGroup, or of a later heartbeat, 0 where that is not known."""

    pending: bool
    is_new: bool
    silent_ms: int
    timeout_ms: int
    connection_id: int = 0


@wire_name("MembersEvicted")
class MembersEvicted(GenerationEvent):
    """Members that did not rejoin ("join") or did not ask for their assignment ("sync") in time. For each of them,
    how long nothing had been heard of it, and its connection, as for MemberExpired."""

    members: tuple[MemberName, ...]
    phase: str
    silent_ms: tuple[int, ...] = ()
    connection_ids: tuple[int, ...] = ()


@wire_name("LeaderReplaced")
class LeaderReplaced(MemberEvent):
    """The leader did not rejoin in time; another member leads."""

    old_leader_id: str


@wire_name("MemberFenced")
class MemberFenced(MemberEvent):
    """A member used a group instance id that belongs to the member id `existing` now. `operation` is Kafka's word
    for the request. Which client is behind the other id is not told: a static member that was replaced keeps the
    client id and host of its predecessor, as in Kafka."""

    existing: str
    operation: str


@wire_name("SubscriptionUnreadable")
class SubscriptionUnreadable(GenerationEvent):
    """The group's metadata is no consumer subscription: which topics it reads is not known."""

    protocol_name: str


@wire_name("SimpleGroupCreated")
class SimpleGroupCreated(GroupEvent):
    """Offsets were committed for a group that did not exist, by a consumer without group management."""


@wire_name("OffsetsCommitted")
class OffsetsCommitted(GroupEvent):
    """Offsets of this many partitions were stored; `member_id` is "" for simple consumers. Made for every commit,
    and therefore of no more than lies at hand."""

    member_id: str
    partitions: int


@wire_name("OffsetsPending")
class OffsetsPending(GroupEvent):
    """Offsets of this many partitions wait for the end of a producer's transaction; `member_id` is "" for who named
    no member. Made for every such commit, and therefore of no more than lies at hand."""

    member_id: str
    producer_id: int
    partitions: int


@wire_name("TransactionEnded")
class TransactionEnded(GroupEvent):
    """A producer's transaction ended that had pending offsets of the group, so that these are committed, or, where
    it was aborted, dropped. `partitions` does not count what OffsetsSkipped tells of."""

    producer_id: int
    is_committed: bool
    partitions: int


@wire_name("OffsetsSkipped")
class OffsetsSkipped(GroupEvent):
    """A producer's transaction was committed, but not its offsets of this many partitions: newer ones were
    committed meanwhile. `offsets` are the first of these."""

    producer_id: int
    partitions: int
    offsets: tuple[SkippedOffset, ...]


@wire_name("MixedCommits")
class MixedCommits(GroupEvent):
    """A group commits offsets of a partition in transactions and outside of them, so that which of them counts
    depends on which record is later in the log, not on when it began to count. `is_transactional` is what the
    commit was that came to the other kind. Told once for each group and load, of the first such partition."""

    member_id: str
    topic: str
    partition: int
    is_transactional: bool


@wire_name("OffsetsDeleted")
class OffsetsDeleted(GroupEvent):
    """Offsets were removed by request, or because their topic was deleted."""

    partitions: int
    reason: str


@wire_name("OffsetsExpired")
class OffsetsExpired(GroupEvent):
    """Offsets outlived offsets.retention.minutes."""

    partitions: int


@wire_name("GroupDeleted")
class GroupDeleted(GroupEvent):
    """The group is gone, with this many offsets; the reason is "request" or "retention". A request names its client
    in `member`, without a member id. `expired_offsets` counts the offsets that retention removed just before."""

    offsets: int
    reason: str
    expired_offsets: int = 0


@wire_name("GroupLoaded")
class GroupLoaded(GenerationEvent):
    """The group was read back from the log; `type` is its type's name."""

    state: str
    members: int
    type: str = "classic"


@wire_name("ConsumerMemberJoined")
class ConsumerMemberJoined(MemberEvent):
    """A member came to a group that did not know it; `uses_classic_protocol` says with which requests."""

    uses_classic_protocol: bool = False


@wire_name("ConsumerMemberReplaced")
class ConsumerMemberReplaced(MemberEvent):
    """A static member came back, as `member`, and has what `old_member_id` had."""

    old_member_id: str
    uses_classic_protocol: bool = False


@wire_name("ConsumerMemberLeft")
class ConsumerMemberLeft(MemberEvent):
    """A member said that it leaves, or somebody for it. One that `returns` is static, and keeps its partitions for
    a session. `reason` is what a client of the classic protocol said, "" where there is no place for that."""

    returns: bool
    reason: str = ""


class FenceCause(StrEnum):
    """Why a member was removed that did not leave."""

    SESSION_EXPIRED = "the member session expired"
    NOT_REVOKED = "it did not give up its partitions in time"
    NOT_REJOINED = "it did not join again in time"
    NOT_SYNCED = "it did not ask for its assignment in time"
    ASKED = "somebody asked for it"


@wire_name("ConsumerMemberFenced")
class ConsumerMemberFenced(MemberEvent):
    """A member was removed. It was last heard of `silent_ms` ago, and had `timeout_ms` for what it did not do;
    `partitions` is how many it held. `connection_id` is that over which it was heard last, 0 where that was before
    a restart."""

    cause: FenceCause
    silent_ms: int
    timeout_ms: int
    partitions: int
    connection_id: int = 0


class EpochCause(StrEnum):
    """Why a group has another epoch."""

    MEMBER_JOINED = "a member joined"
    SUBSCRIPTION_CHANGED = "a member subscribed to other topics"
    ASSIGNOR_CHANGED = "members prefer another assignor"
    TOPICS_CHANGED = "topics changed"
    REGEX_RESOLVED = "a regular expression matches other topics"
    MEMBER_LEFT = "a member left"
    MEMBER_FENCED = "a member was fenced"


class TopicChange(StrEnum):
    """What happened to a topic that a group reads."""

    CREATED = "created"
    GREW = "grew"
    DELETED = "deleted"


class MemberTarget(NamedTuple):
    """What a member is to have, and what it was to have before."""

    member: MemberName
    before: TargetPartitions
    target: TargetPartitions = NO_TARGET


@wire_name("EpochBumped")
class EpochBumped(GenerationEvent):
    """The group has a new epoch, `generation_id`; `member` is whose doing it is, None where it is nobody's. `state`
    is what it was in, and so many `members` it has now; `gone` are those that it had, and what they were to have.
    Where topics changed, these are `topics`, and `change` is what happened to all of them; None: several things, or
    that is not known."""

    cause: EpochCause
    metadata_hash: int
    state: str
    members: int
    gone: tuple[MemberTarget, ...] = ()
    topics: tuple[str, ...] = ()
    change: TopicChange | None = None


@wire_name("TargetComputed")
class TargetComputed(GenerationEvent):
    """Who is to have what was computed, for the epoch `generation_id`. `partitions` counts all of them, `moved`
    those that another member was to have before, or nobody; `targets` has every member."""

    assignor: str
    members: int
    partitions: int
    moved: int
    targets: tuple[MemberTarget, ...] = ()


@wire_name("MemberReconciled")
class MemberReconciled(MemberEvent):
    """A member was told something new of its assignment, or confirmed it. `member_epoch` is its own; it has so many
    partitions, has to give up `pending`, and is to have `missing` more, which others have not given up."""

    member_epoch: int
    state: str
    assigned: int
    pending: int
    missing: int


@wire_name("RegexesResolved")
class RegexesResolved(GenerationEvent):
    """Regular expressions were held against so many topics; `changed` of them match others than before."""

    regexes: int
    topics: int
    changed: int


@wire_name("RegexesUnresolved")
class RegexesUnresolved(GenerationEvent):
    """What so many regular expressions match is not known, or not any more, because of `reason`."""

    regexes: int
    reason: str


@wire_name("ConsumerHeartbeatRefused")
class ConsumerHeartbeatRefused(RequestRefused, kw_only=True):
    """A ConsumerGroupHeartbeat was; `generation_id` is the epoch that it was sent in, `reason` what it was told."""

    reason: str


@wire_name("GroupConverted")
class GroupConverted(GenerationEvent):
    """A group is one of another type now, "classic" or "consumer". `members` came along."""

    from_type: str
    to_type: str
    members: int
