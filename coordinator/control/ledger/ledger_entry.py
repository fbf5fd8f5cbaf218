"""An entry of the ledger: one generation of one group, or one that failed.

Durations are group time, but for those under `real`. Members are those of the generation, and those that were lost
on the way to it; of a large group only some are named (`members_left_out` counts the others).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from coordinator.core.wire_name import wire_name
from coordinator.group.group_types import GroupType


@wire_name("EntryResult")
class EntryResult(StrEnum):
    """What became of it. An open one may be Stable already: not all have asked for their assignment yet."""

    OPEN = "open"
    STABLE = "stable"
    EMPTY = "empty"
    FAILED = "failed"
    """It was broken off by the next one, or the groups were unloaded, or the group is gone."""
    OVERTAKEN = "overtaken"
    """Of a consumer group: there was another epoch before all members had their target, or it is a classic one."""


@wire_name("Why")
class WaitReason(StrEnum):
    """Why a group had to wait for a member."""

    TOLD_LATE = "told late"
    TOLD_BUT_SILENT = "told but silent"
    NEVER_TOLD = "never told"
    REJOINED_LATE = "rejoined late"
    SYNCED_LATE = "synced late"
    NEVER_SYNCED = "never synced"
    REVOKED_LATE = "revoked late"
    NEVER_REVOKED = "never revoked"


MOVED_CLOCK_MS: Final = 250
"""A group's clock that differs by more from the process's in one rebalance was moved, or stood still."""


@wire_name("RealTimes")
class RealTimes(Struct, frozen=True, kw_only=True):
    """What the rebalance took on a clock that nobody moves; null while it is open."""

    join_ms: int
    sync_ms: int
    total_ms: int


@wire_name("ActorSeen")
class ActorSilence(Struct, frozen=True, kw_only=True):
    """The client that began a rebalance: how long ago groupd last heard from it, and how long ago its connection
    closed, on a clock that nobody moves. Null: not known, or it had a connection."""

    last_heard_ms_ago: int | None
    connection_closed_ms_ago: int | None


@wire_name("Actor")
class Actor(Struct, frozen=True, kw_only=True):
    """The member whose doing a rebalance is."""

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
    """What a member did in a rebalance. Times are from its start; null: it never did. `told_after_ms`: when it
    learned that it has to rejoin; `synced_after_ms`: when it asked for its assignment; `awaited_ms`: how long the
    group waited for it; `owned` (by topic), `gained` and `lost` ("orders-2"): its partitions, against its last
    Stable generation; of very many the first are named, and the counts are right. `owned` is null where it is
    not the consumer protocol's, or there is none. `gone`: why it is no member any more; `missed_generations`:
    those that it was not in, or does not know that it is.

    Of a consumer group: `told_after_ms` is when it had its first heartbeat after the target was computed,
    `reached_after_ms` when it had all of its target, and `awaited_ms` how long that took; `owned` is its target,
    `gained` and `lost` are against the target before. It still has `revoking_count` partitions to give up, and
    has had, or had, some for `revoking_ms`, be it since an earlier epoch; `missing_count` are still others'. These
    fields are left out where there is nothing to say, as in classic groups."""

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
    """Whom the group waited for longest, how long, and why that took so long, as a word and as a sentence."""

    member_id: str
    client_id: str
    ms: int
    why: WaitReason
    because: str


@wire_name("LedgerEntry")
class LedgerEntry(Struct, frozen=True, kw_only=True):
    """One generation of a group, or an attempt that failed.

    Durations are group time, except under `real`. Members are those of the generation and those lost on the way to
    it; of a large group only some are named (`members_left_out` counts the others).

    `seq` is the number of the event that closed it (of an open one: of its last event), so that entries and the
    stream can be put in one order; `generation_id` is that to which it leads; `cause` is a short phrase,
    `reason` Kafka's sentence, `client_reason` the reason that the client gave; `attempts`: which attempt this
    is, 1 unless the one before was broken off in its sync phase; `started_ms` is Unix time, `group_time_ms` the
    time of the group's clock at that moment; `total_ms` is until the group was Stable or Empty. `leader` is the
    client id of the leader; `members_count` and `gone_count` are of all, named or not. `unowned` are partitions
    of subscribed topics that no member was given; empty where that is not known.

    Of a consumer group (`type`) an entry is one epoch: `generation_id` is `group_epoch`, `assignment_epoch`
    that of the last target that was computed, None where that is not known; there are more values of `cause`;
    `join_ms` is until the target of this epoch was computed, `sync_ms` from then until all had it, and
    `protocol_name` the assignor. There is no leader."""

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
    """Whether what a rebalance took in group time says nothing of how long anybody was busy."""
    return abs(total_ms - real.total_ms) > MOVED_CLOCK_MS
