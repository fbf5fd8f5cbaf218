"""What the entry of an epoch says, made of what was noted while members went to their target."""

from coordinator.control.ledger.closing import LARGE_MEMBERS, MAX_REASON, MOST_FAILED, SLOWEST
from coordinator.control.ledger.entry import (
    AwaitedLongest,
    EntryResult,
    LedgerEntry,
    MemberStory,
    RealTimes,
    Why,
)
from coordinator.control.ledger.names import shown, shown_or_none
from coordinator.control.ledger.open_epoch import EpochTrack, OpenEpoch
from coordinator.control.ledger.partitions import NOTHING, Naming, count_of, without
from coordinator.control.ledger.topic_names import TopicNames
from coordinator.group.group_type import GroupType
from coordinator.net.peer import printable


def made_epoch(
    entry: OpenEpoch, result: EntryResult, now_ms: int, real_ns: int, names: TopicNames
) -> LedgerEntry:
    """The entry as it is at a monotonic time of its group, and of the process; without its real times while it is
    open."""
    tracks = list(entry.tracks.values())
    named = _named(entry, tracks, now_ms)
    naming = Naming()
    targeted_ms = now_ms if entry.targeted_ms is None else entry.targeted_ms
    gone_count = sum(track.gone is not None for track in tracks)
    members_count = max(entry.members, len(tracks) - gone_count)
    return LedgerEntry(
        type=GroupType.CONSUMER.value,
        seq=entry.number,
        group_id=entry.group_id,
        generation_id=entry.group_epoch,
        group_epoch=entry.group_epoch,
        assignment_epoch=entry.assignment_epoch,
        result=result,
        cause=entry.cause,
        reason=printable(entry.reason, MAX_REASON),
        client_reason="",
        actor=entry.actor,
        also=list(entry.also),
        attempts=1,
        started_ms=entry.wall_ms,
        group_time_ms=entry.started_wall_ms,
        join_ms=targeted_ms - entry.started_ms,
        sync_ms=now_ms - targeted_ms,
        total_ms=now_ms - entry.started_ms,
        real=None if result is EntryResult.OPEN else _real(entry, real_ns),
        from_state=entry.from_state,
        protocol_name=shown_or_none(entry.assignor),
        leader=None,
        leader_id=None,
        members=[_story(entry, track, naming, now_ms, names) for track in named],
        members_left_out=members_count + gone_count - len(named),
        members_count=members_count,
        gone_count=gone_count,
        awaited_longest=_awaited_longest(entry, tracks, now_ms),
        unowned=[],
        unowned_count=0,
    )


def _real(entry: OpenEpoch, now_ns: int) -> RealTimes:
    targeted_ns = now_ns if entry.real_targeted_ns is None else entry.real_targeted_ns
    return RealTimes(
        join_ms=(targeted_ns - entry.real_started_ns) // 1_000_000,
        sync_ms=(now_ns - targeted_ns) // 1_000_000,
        total_ms=(now_ns - entry.real_started_ns) // 1_000_000,
    )


def _awaited_ms(entry: OpenEpoch, track: EpochTrack, now_ms: int) -> int:
    """Since there was a target for it."""
    if track.gone is not None or track.target is None or entry.targeted_ms is None:
        return 0
    return (now_ms if track.reached_ms is None else track.reached_ms) - entry.targeted_ms


def _named(entry: OpenEpoch, tracks: list[EpochTrack], now_ms: int) -> list[EpochTrack]:
    if len(tracks) <= LARGE_MEMBERS:
        return tracks
    slowest = sorted(tracks, key=lambda track: _awaited_ms(entry, track, now_ms), reverse=True)[:SLOWEST]
    failed = [track for track in tracks if track.gone is not None or track.revoking or track.missing]
    wanted = {track.name.member_id for track in (*slowest, *failed[:MOST_FAILED])}
    if entry.actor is not None:
        wanted.add(entry.actor.member_id)
    return [track for track in tracks if track.name.member_id in wanted]


def _story(
    entry: OpenEpoch, track: EpochTrack, naming: Naming, now_ms: int, names: TopicNames
) -> MemberStory:
    name, started_ms = track.name, entry.started_ms
    before = names.owned(track.before)
    owned = None if track.target is None else names.owned(track.target)
    if track.gone is not None:
        gained, lost = NOTHING, before
    elif owned is None:
        gained, lost = NOTHING, NOTHING
    else:
        gained, lost = without(owned, before), without(before, owned)
    until_ms = now_ms if track.revoked_ms is None else track.revoked_ms
    return MemberStory(
        member_id=shown(name.member_id),
        group_instance_id=shown_or_none(name.group_instance_id),
        client_id=shown(name.client_id),
        client_host=shown(name.client_host),
        is_new=track.is_new,
        told_after_ms=None if track.told_ms is None else track.told_ms - started_ms,
        rejoined_after_ms=None,
        synced_after_ms=None,
        awaited_ms=_awaited_ms(entry, track, now_ms),
        owned=None if owned is None else naming.by_topic(owned),
        owned_count=0 if owned is None else count_of(owned),
        gained=naming.names(gained),
        gained_count=count_of(gained),
        lost=naming.names(lost),
        lost_count=count_of(lost),
        commits_refused=track.commits_refused,
        gone=track.gone,
        missed_generations=[],
        member_epoch=track.member_epoch,
        reached_after_ms=None if track.reached_ms is None else track.reached_ms - started_ms,
        revoking_count=track.revoking,
        revoking_ms=None if track.revoking_ms is None else until_ms - track.revoking_ms,
        missing_count=track.missing,
    )


def _awaited_longest(entry: OpenEpoch, tracks: list[EpochTrack], now_ms: int) -> AwaitedLongest | None:
    """Who kept others waiting with what it had to give up; else whose heartbeat came last."""
    present = [track for track in tracks if track.gone is None and track.target is not None]
    if not present:
        return None
    longest = max(present, key=lambda track: _revoking_in(entry, track, now_ms))
    ms = _revoking_in(entry, longest, now_ms)
    if ms:
        why = Why.NEVER_REVOKED if longest.revoking else Why.REVOKED_LATE
        because = f"it had partitions to give up for {ms} ms"
    else:
        longest = max(present, key=lambda track: _awaited_ms(entry, track, now_ms))
        ms, why = _awaited_ms(entry, longest, now_ms), Why.TOLD_LATE
        because = f"its heartbeat came after {ms} ms"
    if not ms:
        return None
    return AwaitedLongest(
        member_id=shown(longest.name.member_id),
        client_id=shown(longest.name.client_id),
        ms=ms,
        why=why,
        because=because,
    )


def _revoking_in(entry: OpenEpoch, track: EpochTrack, now_ms: int) -> int:
    """For how long it has given partitions up in this epoch."""
    if track.revoking_ms is None:
        return 0
    until_ms = now_ms if track.revoked_ms is None else track.revoked_ms
    return until_ms - max(track.revoking_ms, entry.started_ms)
