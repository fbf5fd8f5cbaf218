"""What an entry says, made of what was noted while its rebalance went on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.control.ledger.because import awaited_longest
from coordinator.control.ledger.entry import EntryResult, LedgerEntry, MemberStory, RealTimes, is_moved
from coordinator.control.ledger.member_track import MemberTrack
from coordinator.control.ledger.names import shown, shown_or_none
from coordinator.control.ledger.open_entry import OpenEntry, Waits
from coordinator.control.ledger.partitions import (
    MAX_BYTES_OF_ALL,
    NOTHING,
    Naming,
    Owned,
    count_of,
    partitions_of,
    without,
)
from coordinator.group.events import RebalanceCompleted
from coordinator.group.state import EMPTY, STABLE
from coordinator.net.peer import printable

LARGE_MEMBERS: Final = 50
"""Of an entry with more members only some are named: the leader,"""
SLOWEST: Final = 10
"""those that were awaited longest,"""
MOST_FAILED: Final = 200
"""and those that are gone, or never asked for their assignment."""
MAX_REASON: Final = 1_000
MAX_UNOWNED: Final = 100
"""Partitions without an owner that are named."""

CountPartitions = Callable[[str], int | None]
"""How many partitions a topic has; None where there is no such topic."""


def made_entry(
    entry: OpenEntry,
    result: EntryResult,
    now_ms: int,
    real: RealTimes,
    missed: Mapping[str, list[int]],
    count_partitions: CountPartitions,
) -> LedgerEntry:
    """The entry as it is at a monotonic time of its group, without its real times. In: what it took by the
    process's clock until now; generations that members had missed before."""
    completed = entry.completed
    owned = _owned_by_all(completed)
    tracks = list(entry.tracks.values())
    waits = entry.waits(now_ms)
    named = _named(entry, tracks, waits)
    naming = Naming()
    is_over = result is not EntryResult.OPEN
    members = [_story(entry, track, owned, naming, missed, waits, is_over) for track in named]
    unowned, unowned_count = _unowned(completed, owned, count_partitions)
    end_ms = now_ms if entry.settled_ms is None else entry.settled_ms
    joined_ms = end_ms if entry.stabilized_ms is None else entry.stabilized_ms
    trigger = entry.started.trigger
    gone_count = sum(track.gone is not None for track in tracks) + entry.strangers_gone
    leader = None if entry.leader_id is None else entry.tracks.get(entry.leader_id)
    return LedgerEntry(
        seq=entry.number,
        group_id=entry.group_id,
        generation_id=entry.generation_id,
        result=result,
        cause=entry.cause,
        reason=printable(trigger.reason, MAX_REASON),
        client_reason=printable(trigger.client_reason, MAX_REASON),
        actor=entry.actor,
        also=list(entry.also),
        attempts=entry.attempt,
        started_ms=entry.wall_ms,
        group_time_ms=entry.started_wall_ms,
        join_ms=joined_ms - entry.started_ms,
        sync_ms=end_ms - joined_ms,
        total_ms=end_ms - entry.started_ms,
        real=None,
        from_state=entry.started.state,
        protocol_name=shown_or_none(entry.protocol_name),
        leader=None if leader is None else shown(leader.name.client_id),
        leader_id=shown_or_none(entry.leader_id),
        members=members,
        members_left_out=len(tracks) - len(named) + entry.strangers_gone,
        members_count=len(tracks) + entry.strangers_gone - gone_count,
        gone_count=gone_count,
        awaited_longest=awaited_longest(entry, waits, is_moved=is_moved(end_ms - entry.started_ms, real)),
        unowned=unowned,
        unowned_count=unowned_count,
    )


def result_of(entry: OpenEntry) -> EntryResult:
    """What became of an entry that is over."""
    if entry.completed is None:
        return EntryResult.FAILED
    return EntryResult.EMPTY if entry.completed.state == EMPTY.value else EntryResult.STABLE


def real_times(entry: OpenEntry, now_ns: int) -> RealTimes:
    """What it took by the process's clock."""
    end_ns = now_ns if entry.completed is None else entry.real_settled_ns
    joined_ns = end_ns if entry.stabilized_ms is None else entry.real_stabilized_ns
    return RealTimes(
        join_ms=(joined_ns - entry.real_started_ns) // 1_000_000,
        sync_ms=(end_ns - joined_ns) // 1_000_000,
        total_ms=(end_ns - entry.real_started_ns) // 1_000_000,
    )


def missed_it(track: MemberTrack) -> bool:
    """Whether a member is not in the generation of an entry that is settled, or has not asked what it got."""
    return track.gone is not None or track.synced_ms is None


# Whom it names


def _named(entry: OpenEntry, tracks: list[MemberTrack], waits: Waits) -> list[MemberTrack]:
    if len(tracks) <= LARGE_MEMBERS:
        return tracks
    slowest = sorted(tracks, key=lambda track: sum(waits[track.name.member_id]), reverse=True)[:SLOWEST]
    failed = [track for track in tracks if missed_it(track)][:MOST_FAILED]
    wanted = {track.name.member_id for track in (*slowest, *failed)} | {entry.leader_id}
    if entry.actor is not None:
        wanted.add(entry.actor.member_id)
    return [track for track in tracks if track.name.member_id in wanted]


def _story(
    entry: OpenEntry,
    track: MemberTrack,
    owned_by_all: Mapping[str, Owned] | None,
    naming: Naming,
    missed: Mapping[str, list[int]],
    waits: Waits,
    is_over: bool,
) -> MemberStory:
    name, assigned, completed = track.name, track.assigned, entry.completed
    protocol_type = None if completed is None else completed.protocol_type
    owned = None if owned_by_all is None or assigned is None else owned_by_all[assigned.member.member_id]
    before_data = track.had if assigned is None else assigned.before or b""
    before: Owned | None = NOTHING
    if assigned is None or before_data != assigned.assignment:
        before = partitions_of(before_data, protocol_type)
    else:
        before = owned
    gained = NOTHING if owned is None or before is None else without(owned, before)
    lost = NOTHING if before is None else without(before, owned or NOTHING)
    if assigned is not None and owned is None:
        lost = NOTHING
    generations = missed.get(name.member_id, [])
    if is_over and completed is not None and missed_it(track):
        generations = [*generations, entry.generation_id]
    started_ms = entry.started_ms
    return MemberStory(
        member_id=shown(name.member_id),
        group_instance_id=shown_or_none(name.group_instance_id),
        client_id=shown(name.client_id),
        client_host=shown(name.client_host),
        is_new=track.is_new if assigned is None else assigned.is_new,
        told_after_ms=_after(track.told_ms, started_ms),
        rejoined_after_ms=_after(track.rejoined_ms, started_ms),
        synced_after_ms=_after(track.synced_ms, started_ms),
        awaited_ms=sum(waits[name.member_id]),
        owned=None if owned is None else naming.by_topic(owned),
        owned_count=0 if owned is None else count_of(owned),
        gained=naming.names(gained),
        gained_count=count_of(gained),
        lost=naming.names(lost),
        lost_count=count_of(lost),
        commits_refused=track.commits_refused,
        gone=track.gone,
        missed_generations=generations,
    )


def _after(instant_ms: int | None, started_ms: int) -> int | None:
    return None if instant_ms is None else instant_ms - started_ms


# Who owns what


def _owned_by_all(completed: RebalanceCompleted | None) -> dict[str, Owned] | None:
    """By member id; None where one of them cannot be read, or they are too much to look into."""
    if completed is None or sum(len(one.assignment) for one in completed.members) > MAX_BYTES_OF_ALL:
        return None
    read: dict[bytes, Owned] = {}
    owned: dict[str, Owned] = {}
    for one in completed.members:
        partitions: Owned | None = read.get(one.assignment)  # in a large group most may have nothing
        if partitions is None:
            partitions = partitions_of(one.assignment, completed.protocol_type)
            if partitions is None:
                return None
            read[one.assignment] = partitions
        owned[one.member.member_id] = partitions
    return owned


def _unowned(
    completed: RebalanceCompleted | None, owned: Mapping[str, Owned] | None, count_partitions: CountPartitions
) -> tuple[list[str], int]:
    if completed is None or owned is None or completed.state != STABLE.value:
        return [], 0
    names: list[str] = []
    count = 0
    for topic in completed.subscribed_topics or ():
        total = count_partitions(topic) or 0
        taken = _taken(topic, owned.values())
        missing = total - sum(number < total for number in taken)
        count += missing
        if missing and len(names) < MAX_UNOWNED:
            free = (number for number in range(total) if number not in taken)
            names += [f"{shown(topic)}-{number}" for number, _ in zip(free, range(MAX_UNOWNED), strict=False)]
    return names[:MAX_UNOWNED], count


def _taken(topic: str, owned: Iterable[Owned]) -> set[int]:
    taken: set[int] = set()
    for one in owned:
        taken |= one.get(topic, frozenset())
    return taken
