"""An entry of the ledger: one generation of one group, or an attempt that failed.

Durations are group time, except under `real`. Members are those of the generation and those lost on the way
to it. An entry of a large group names some of them (`members_left_out` counts the others).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from coordinator.core.wire_name import wire_name
from coordinator.group.group_types import GroupType


@wire_name("EntryResult")
class EntryResult(StrEnum):
    """The result of a rebalance. A group can be Stable while its entry is still open, because members have yet to
    fetch their assignment."""

    OPEN = "open"
    STABLE = "stable"
    EMPTY = "empty"
    FAILED = "failed"
    """The next rebalance replaced it, its partition was unloaded, or the group was deleted."""
    OVERTAKEN = "overtaken"
    """Only in consumer groups: a new epoch began before all members had their target, or the group became
    classic."""


@wire_name("Why")
class WaitReason(StrEnum):
    """The reason why a group waited for a member."""

    TOLD_LATE = "told late"
    TOLD_BUT_SILENT = "told but silent"
    NEVER_TOLD = "never told"
    REJOINED_LATE = "rejoined late"
    SYNCED_LATE = "synced late"
    NEVER_SYNCED = "never synced"
    REVOKED_LATE = "revoked late"
    NEVER_REVOKED = "never revoked"


MOVED_CLOCK_MS: Final = 250
"""The maximum difference in milliseconds between the group's and the process's duration of a rebalance. A larger
one means that the group's clock was moved or frozen."""


@wire_name("RealTimes")
class RealTimes(Struct, frozen=True, kw_only=True):
    """The durations of a rebalance in the time of the process, in milliseconds."""

    join_ms: int
    sync_ms: int
    total_ms: int


@wire_name("ActorSeen")
class ActorSilence(Struct, frozen=True, kw_only=True):
    """The silence of the client that caused a rebalance, in the time of the process: the time since its last
    request, and the time since its connection closed. Null means that the time is unknown, or that the client is
    connected."""

    last_heard_ms_ago: int | None
    connection_closed_ms_ago: int | None


@wire_name("Actor")
class Actor(Struct, frozen=True, kw_only=True):
    """The member that caused a rebalance."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    last_heard_ms_ago: int | None
    real: ActorSilence


@wire_name("AlsoActed")
class RelatedAction(Struct, frozen=True, kw_only=True):
    """An action of an operator during the rebalance or shortly before it."""

    kind: str
    what: str
    by: str | None


@wire_name("MemberStory")
class MemberTimeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The actions of a member in a rebalance. Times count from the start of the rebalance in milliseconds; null
    means that the action did not happen. Long lists are cut, but the counts are exact.

    - `told_after_ms`: the member learned that it must rejoin.
    - `rejoined_after_ms`, `synced_after_ms`: it sent JoinGroup and SyncGroup.
    - `awaited_ms`: the time for which the group waited for it.
    - `owned`: its partitions by topic; null without an assignment of the consumer protocol.
    - `gained` and `lost` ("orders-2"): the differences from its last Stable generation.
    - `gone`: the reason why it left.
    - `missed_generations`: the generations that it was not in, or does not know.

    In a consumer group:

    - `told_after_ms`: its first heartbeat after the computation of the target.
    - `reached_after_ms`: it had its whole target. `awaited_ms` is the time from the computation until then.
    - `owned`: its target. `gained` and `lost` are the differences from the previous target.
    - `revoking_count`: the number of partitions that it still has to revoke.
    - `revoking_ms`: the time for which it has had partitions to revoke, possibly since an earlier epoch.
    - `missing_count`: the number of its partitions that other members still own.

    Fields without a value are omitted.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    is_new: bool
    told_after_ms: int | None
    rejoined_after_ms: int | None
    synced_after_ms: int | None
    awaited_ms: int
    owned: dict[str, list[int]] | None
    owned_count: int
    gained: list[str]
    gained_count: int
    lost: list[str]
    lost_count: int
    commits_refused: int
    gone: str | None
    missed_generations: list[int]
    member_epoch: int | None = None
    reached_after_ms: int | None = None
    revoking_count: int | None = None
    revoking_ms: int | None = None
    missing_count: int | None = None


@wire_name("AwaitedLongest")
class LongestWait(Struct, frozen=True, kw_only=True):
    """The member for which the group waited longest, the duration, and the reason as a word and as a sentence."""

    member_id: str
    client_id: str
    ms: int
    why: WaitReason
    because: str


@wire_name("LedgerEntry")
class LedgerEntry(Struct, frozen=True, kw_only=True):
    """One generation of a group, or an attempt that failed.

    Durations are group time in milliseconds, except under `real`. Members are those of the generation and those
    that left during the rebalance. An entry of a large group names only some of them.

    - `seq`: the number of the event that closed the entry, or of the last event of an open entry. It orders
      entries and stream events.
    - `generation_id`: the resulting generation.
    - `cause`: a short phrase. `reason` is Kafka's sentence, `client_reason` the reason that the client gave.
    - `also`: actions of operators during the rebalance or shortly before it.
    - `attempts`: the number of the attempt. It is above 1 if the previous attempt was replaced in its sync phase.
    - `started_ms`: Unix time. `group_time_ms` is the time of the group's clock at that moment.
    - `total_ms`: the time until the group was Stable or Empty.
    - `real`: the durations in the time of the process, null while the entry is open.
    - `leader`: the client id of the leader.
    - `members_left_out`: the number of members that are not named.
    - `members_count`, `gone_count`: the numbers of all members, named or not.
    - `unowned`: unassigned partitions of subscribed topics; empty if unknown.

    In a consumer group (`type`) an entry is one epoch, and `cause` has more values:

    - `generation_id`: the same as `group_epoch`.
    - `assignment_epoch`: the epoch of the last computed target, or null if unknown.
    - `join_ms`: the time until the target of this epoch was computed.
    - `sync_ms`: the time from then until all members had their target.
    - `protocol_name`: the assignor. `leader` is null.
    """

    seq: int
    group_id: str
    generation_id: int
    result: EntryResult
    cause: str
    reason: str
    client_reason: str
    actor: Actor | None
    also: list[RelatedAction]
    attempts: int
    started_ms: int
    group_time_ms: int
    join_ms: int
    sync_ms: int
    total_ms: int
    real: RealTimes | None
    from_state: str
    protocol_name: str | None
    leader: str | None
    leader_id: str | None
    members: list[MemberTimeline]
    members_left_out: int
    members_count: int
    gone_count: int
    awaited_longest: LongestWait | None
    unowned: list[str]
    unowned_count: int
    type: str = GroupType.CLASSIC.value
    group_epoch: int | None = None
    assignment_epoch: int | None = None


def is_clock_moved(total_ms: int, real: RealTimes) -> bool:
    """Return whether the group's clock was moved or frozen, so that group time does not show how long clients
    worked."""
    return abs(total_ms - real.total_ms) > MOVED_CLOCK_MS
