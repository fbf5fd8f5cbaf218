"""Events of groups, one class each. Log lines, metrics, the ledger and the event stream are built from them."""

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
    """An offset of a committed transaction that was dropped because a newer offset, `committed`, remains."""

    topic: str
    partition: int
    offset: int
    committed: int


class GroupIdEvent(MachineEvent):
    """Base of all events about a group id."""

    group_id: str


class GroupEvent(GroupIdEvent, kw_only=True):
    """Base of the events of a group.

    `generation_id` is the group's generation at the event, or the generation in the request that caused it.
    `member` is the subject or the cause of the event, with the client that sent the request. It is None for events
    about the group's offsets or its deletion, and for events without a single member.
    """

    generation_id: int | None = None
    member: MemberName | None = None


class GenerationEvent(GroupEvent):
    """Base of the events about the membership of a group."""

    generation_id: int


class MemberEvent(GenerationEvent):
    """Base of the events about one member."""

    member: MemberName


@wire_name("MemberIdRequired")
class MemberIdRequired(MemberEvent):
    """The group assigned an id to a dynamic member that joined without one; the member must join again with it
    (KIP-394).
    """

    state: str


@wire_name("MemberJoined")
class MemberJoined(MemberEvent):
    """A member was added in group state `state`. `pending`: it joined with the id that the group had assigned to
    it.
    """

    state: str
    pending: bool


@wire_name("MemberRejoined")
class MemberRejoined(MemberEvent):
    """A member joined the join phase, or started one. `state` is the group's state before that."""

    state: str


@wire_name("MemberToldToRejoin")
class MemberToldToRejoin(MemberEvent):
    """The response REBALANCE_IN_PROGRESS makes a member join again. `operation` is Kafka's request name."""

    operation: str


class RequestRefused(GroupEvent):
    """A request was answered with an error.

    `generation_id` is the generation in the request, None if the request has none. The id of `member` is "" if the
    sender has none yet. `state` is the state of the group, "" without a group or if the check ran before the
    lookup. `detail` is None without details, or if MemberFenced reports them. `partitions` counts the refused
    partitions, None for a request without partitions. `offsets` lists the first of them if the group refused the
    sender's commit.
    """

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
    """A SyncGroup was answered with an error other than REBALANCE_IN_PROGRESS, which MemberToldToRejoin reports."""


@wire_name("HeartbeatRefused")
class HeartbeatRefused(RequestRefused):
    """A Heartbeat was answered with an error other than REBALANCE_IN_PROGRESS, which MemberToldToRejoin reports."""


@wire_name("CommitRefused")
class CommitRefused(RequestRefused):
    """An OffsetCommit or TxnOffsetCommit was refused, entirely or for some partitions."""

    is_transactional: bool = False


@wire_name("StaticMemberReplaced")
class StaticMemberReplaced(MemberEvent):
    """A restarted static member replaced its predecessor (KIP-345)."""

    old_member_id: str
    state: str


@wire_name("RebalanceAvoided")
class RebalanceAvoided(MemberEvent):
    """A static member returned to a Stable group and left the selected protocol unchanged."""


@wire_name("RebalanceStarted")
class RebalanceStarted(GenerationEvent):
    """The group prepares to rebalance.

    `state` is the previous state and `generation_id` the previous generation. `member` is the actor of the trigger.
    `members` are the group's members, which must rejoin unless they have just done so.
    """

    state: str
    trigger: Trigger
    members: tuple[MemberName, ...] = ()


@wire_name("RebalanceWaits")
class RebalanceWaits(GenerationEvent):
    """A rebalance is still in progress, or members of a Stable generation have not fetched their assignment yet.

    The wait has lasted `waited_ms` and lasts at most `left_ms` more. `awaited` are the members that the group waits
    for; it is empty if `is_initial`, when the group waits for further members to join. `members` counts the group's
    members and `attempts` the starts of the rebalance. `trigger` is None in a Stable group.
    """

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
    """A rebalance ended: the group is Stable or Empty.

    `trigger` started the rebalance and `member` is its actor. `attempts` counts the starts of the rebalance and
    `latest` is the trigger of the last one. Start and end are monotonic times; join phases took `join_ms` of the
    interval and sync phases `sync_ms`. `last_joined` sent the JoinGroup that ended the last join phase; it is None
    if a timeout, a departure or the initial delay ended it. `members` has the members of the generation with their
    previous and new assignments. `gone` has the members of the previous Stable generation that have left.
    `subscribed_topics` unites the subscriptions of all members, None if unknown.
    """

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
    """New members joined during the initial rebalance delay, which therefore lasts `delay_ms` more."""

    delay_ms: int


@wire_name("RebalanceStalled")
class RebalanceStalled(GenerationEvent):
    """No member rejoined, but static members with live sessions remain: the join phase continues."""

    members: int


@wire_name("GroupStabilized")
class GroupStabilized(GenerationEvent):
    """The join phase ended: the new generation waits for its leader's assignment."""

    members: int
    leader_id: str
    protocol_name: str


@wire_name("SyncReceived")
class SyncReceived(MemberEvent):
    """A member sent SyncGroup before the leader's assignment arrived."""


@wire_name("AssignmentReceived")
class AssignmentReceived(MemberEvent):
    """The leader sent the assignment. Members in `missing` were left out and get an empty assignment. `strangers`
    are ids in it that belong to no member.
    """

    members: int
    static_members: int
    missing: tuple[str, ...]
    strangers: tuple[str, ...]


@wire_name("AssignmentApplied")
class AssignmentApplied(GenerationEvent):
    """The group became Stable."""

    members: int


@wire_name("AssignmentFetched")
class AssignmentFetched(MemberEvent):
    """A member received its assignment."""


@wire_name("GroupEmptied")
class GroupEmptied(GenerationEvent):
    """The group started a generation without members."""


@wire_name("MemberLeft")
class MemberLeft(MemberEvent):
    """A LeaveGroup removed a member; a `pending` one had not joined yet. `sender_id` at `sender_host` sent the
    request: the member's own client, or an admin client.
    """

    reason: str
    pending: bool
    sender_id: str
    sender_host: str


@wire_name("MemberExpired")
class MemberExpired(MemberEvent):
    """The session of a member timed out.

    A `pending` member did not join with its assigned id in time. An `is_new` member waited for its first generation
    for the maximum time. `connection_id` is the connection of its last JoinGroup or heartbeat, 0 if unknown.
    """

    pending: bool
    is_new: bool
    silent_ms: int
    timeout_ms: int
    connection_id: int = 0


@wire_name("MembersEvicted")
class MembersEvicted(GenerationEvent):
    """Members did not send JoinGroup (phase "join") or SyncGroup (phase "sync") in time. `silent_ms` and
    `connection_ids` have one entry for each member, with the meaning of MemberExpired.
    """

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
    """A member used a group instance id that now belongs to the member id `existing`.

    `operation` is Kafka's name of the request. The event does not identify the client of `existing`: a replaced
    static member keeps the client id and host of its predecessor, as in Kafka.
    """

    existing: str
    operation: str


@wire_name("SubscriptionUnreadable")
class SubscriptionUnreadable(GenerationEvent):
    """The group's metadata cannot be parsed as a consumer subscription: its topics are unknown."""

    protocol_name: str


@wire_name("SimpleGroupCreated")
class SimpleGroupCreated(GroupEvent):
    """A consumer without group management committed offsets for a group that did not exist."""


@wire_name("OffsetsCommitted")
class OffsetsCommitted(GroupEvent):
    """Offsets of `partitions` partitions were stored. `member_id` is "" for simple consumers. Every commit creates
    this event, so its fields need no further lookups.
    """

    member_id: str
    partitions: int


@wire_name("OffsetsPending")
class OffsetsPending(GroupEvent):
    """Offsets of `partitions` partitions are pending until a producer's transaction ends. `member_id` is "" if the
    commit named no member. Every such commit creates this event, so its fields need no further lookups.
    """

    member_id: str
    producer_id: int
    partitions: int


@wire_name("TransactionEnded")
class TransactionEnded(GroupEvent):
    """A producer's transaction with pending offsets of the group ended: they were committed or, on abort, dropped.
    `partitions` excludes the offsets that OffsetsSkipped reports.
    """

    producer_id: int
    is_committed: bool
    partitions: int


@wire_name("OffsetsSkipped")
class OffsetsSkipped(GroupEvent):
    """A producer's transaction was committed, but `partitions` partitions had newer committed offsets, which
    remain. `offsets` lists the first of them.
    """

    producer_id: int
    partitions: int
    offsets: tuple[SkippedOffset, ...]


@wire_name("MixedCommits")
class MixedCommits(GroupEvent):
    """A group commits offsets of a partition both in transactions and outside of them.

    The later record in the log then wins, whichever commit took effect first. `is_transactional` describes the
    commit that revealed the mixture. A group has at most one such event a load, for the first such partition.
    """

    member_id: str
    topic: str
    partition: int
    is_transactional: bool


@wire_name("OffsetsDeleted")
class OffsetsDeleted(GroupEvent):
    """Offsets were removed by a request or because their topic was deleted."""

    partitions: int
    reason: str


@wire_name("OffsetsExpired")
class OffsetsExpired(GroupEvent):
    """Retention (offsets.retention.minutes) removed offsets."""

    partitions: int


@wire_name("GroupDeleted")
class GroupDeleted(GroupEvent):
    """The group was deleted with `offsets` offsets; `reason` is "request" or "retention".

    `member` names the client that requested it, without a member id. `expired_offsets` counts the offsets that
    retention removed just before.
    """

    offsets: int
    reason: str
    expired_offsets: int = 0


@wire_name("GroupLoaded")
class GroupLoaded(GenerationEvent):
    """The group was loaded from the log; `type` is the name of its type."""

    state: str
    members: int
    type: str = "classic"


@wire_name("ConsumerMemberJoined")
class ConsumerMemberJoined(MemberEvent):
    """A new member joined a consumer group, with JoinGroup if `uses_classic_protocol`, else with heartbeats."""

    uses_classic_protocol: bool = False


@wire_name("ConsumerMemberReplaced")
class ConsumerMemberReplaced(MemberEvent):
    """A static member returned as `member` and took over the state of `old_member_id`."""

    old_member_id: str
    uses_classic_protocol: bool = False


@wire_name("ConsumerMemberLeft")
class ConsumerMemberLeft(MemberEvent):
    """A member left, or an admin client removed it.

    If `returns`, a static member left temporarily (member epoch -2) and keeps its partitions until its session
    ends. `reason` is the reason that a client of the classic protocol sent, else "".
    """

    returns: bool
    reason: str = ""


class FenceCause(StrEnum):
    """Why the group removed a member that did not leave."""

    SESSION_EXPIRED = "the member session expired"
    NOT_REVOKED = "it did not give up its partitions in time"
    NOT_REJOINED = "it did not join again in time"
    NOT_SYNCED = "it did not ask for its assignment in time"
    ASKED = "somebody asked for it"


@wire_name("ConsumerMemberFenced")
class ConsumerMemberFenced(MemberEvent):
    """The group removed a member.

    Its last request was `silent_ms` ago; it exceeded a timeout of `timeout_ms`. It held `partitions` partitions.
    `connection_id` is the connection of its last request, 0 if that was before a restart.
    """

    cause: FenceCause
    silent_ms: int
    timeout_ms: int
    partitions: int
    connection_id: int = 0


class EpochCause(StrEnum):
    """Why the epoch of a group was bumped."""

    MEMBER_JOINED = "a member joined"
    SUBSCRIPTION_CHANGED = "a member subscribed to other topics"
    ASSIGNOR_CHANGED = "members prefer another assignor"
    TOPICS_CHANGED = "topics changed"
    REGEX_RESOLVED = "a regular expression matches other topics"
    MEMBER_LEFT = "a member left"
    MEMBER_FENCED = "a member was fenced"


class TopicChange(StrEnum):
    """The change of a topic to which a group subscribes."""

    CREATED = "created"
    GREW = "grew"
    DELETED = "deleted"


class MemberTarget(NamedTuple):
    """The target assignment of a member and its previous one, `before`."""

    member: MemberName
    before: TargetPartitions
    target: TargetPartitions = NO_TARGET


@wire_name("EpochBumped")
class EpochBumped(GenerationEvent):
    """The epoch of the group was bumped to `generation_id`.

    `member` caused the bump; it is None if no member did. `state` is the state before it and `members` the number
    of members after it. `gone` has the removed members with their previous targets. If topics changed, `topics` has
    their names and `change` the kind of change, None if it is mixed or unknown.
    """

    cause: EpochCause
    metadata_hash: int
    state: str
    members: int
    gone: tuple[MemberTarget, ...] = ()
    topics: tuple[str, ...] = ()
    change: TopicChange | None = None


@wire_name("TargetComputed")
class TargetComputed(GenerationEvent):
    """The target assignment for the epoch `generation_id` was computed. `partitions` counts all assigned partitions
    and `moved` those with a new owner, including partitions without a previous one. `targets` has every member.
    """

    assignor: str
    members: int
    partitions: int
    moved: int
    targets: tuple[MemberTarget, ...] = ()


@wire_name("MemberReconciled")
class MemberReconciled(MemberEvent):
    """A member received a new assignment or acknowledged it.

    `member_epoch` is the member's epoch. It has `assigned` partitions, must revoke `pending`, and waits for
    `missing` more until other members revoke them.
    """

    member_epoch: int
    state: str
    assigned: int
    pending: int
    missing: int


@wire_name("RegexesResolved")
class RegexesResolved(GenerationEvent):
    """Regular expressions were matched against `topics` topics; the matches of `changed` expressions changed."""

    regexes: int
    topics: int
    changed: int


@wire_name("RegexesUnresolved")
class RegexesUnresolved(GenerationEvent):
    """The matches of `regexes` regular expressions are unknown because of `reason`."""

    regexes: int
    reason: str


@wire_name("ConsumerHeartbeatRefused")
class ConsumerHeartbeatRefused(RequestRefused, kw_only=True):
    """A ConsumerGroupHeartbeat was answered with an error. `generation_id` is the member epoch in the request and
    `reason` the message of the response.
    """

    reason: str


@wire_name("GroupConverted")
class GroupConverted(GenerationEvent):
    """A group changed its type, "classic" or "consumer", and kept `members` members."""

    from_type: str
    to_type: str
    members: int
