"""Why a group had to wait for a member: from when it was told, came back and asked for its assignment."""

from typing import Final

from coordinator.control.ledger.entry import AlsoActed, AwaitedLongest, Why
from coordinator.control.ledger.member_track import MemberTrack
from coordinator.control.ledger.names import shown
from coordinator.control.ledger.open_entry import OpenEntry, Waits
from coordinator.group.rebalance_facts import DepartureCause

_FAULT: Final = "fault"
_BUSY: Final = ": its application was busy, in poll or in a callback"
_BUSY_OR_SLOW: Final = ": its client held back, or its application was busy"
_GONE: Final = ": it is dead, starved or held"
_OF_GROUP_TIME: Final = " of group time, which was not the real one"


def awaited_longest(entry: OpenEntry, waits: Waits, *, is_moved: bool) -> AwaitedLongest | None:
    """Whom a group waited for longest; None when it waited for nobody. In: whether the clock of the group was moved
    or stood still, so that no time says what a client was busy with."""
    member_id, most = max(waits.items(), key=_whole, default=("", (0, 0)))
    if not sum(most):
        return None
    longest = entry.tracks[member_id]
    why, because = _why(entry, longest, *most, is_moved=is_moved)
    return AwaitedLongest(
        member_id=shown(longest.name.member_id),
        client_id=shown(longest.name.client_id),
        ms=sum(most),
        why=why,
        because=because + _with_faults(entry.also, why),
    )


def _whole(waited: tuple[str, tuple[int, int]]) -> int:
    join_ms, sync_ms = waited[1]
    return join_ms + sync_ms


def _why(
    entry: OpenEntry, track: MemberTrack, join_ms: int, sync_ms: int, *, is_moved: bool
) -> tuple[Why, str]:
    busy, gone, moved = ("", "", _OF_GROUP_TIME) if is_moved else (_BUSY, _GONE, "")
    if sync_ms > join_ms:
        return _why_unsynced(entry, track, sync_ms)
    told_ms = None if track.told_ms is None else track.told_ms - entry.started_ms
    if track.rejoined_ms is None:
        if track.id_given_ms is not None:
            return Why.REJOINED_LATE, f"it got a member id and did not come back with it for {join_ms} ms"
        if told_ms is None:
            return Why.NEVER_TOLD, f"no heartbeat came from it in {join_ms} ms{moved}{gone}"
        if track.gone == DepartureCause.SESSION_EXPIRED.value:
            return (
                Why.TOLD_BUT_SILENT,
                f"it was told after {told_ms} ms and was not heard again: it died or stopped",
            )
        return (
            Why.TOLD_BUT_SILENT,
            f"it was told after {told_ms} ms{moved} and did not rejoin{busy}",
        )
    if told_ms is None:
        if track.id_given_ms is not None and not track.was_there:
            return Why.REJOINED_LATE, f"it came back with its new member id after {join_ms} ms"
        return Why.REJOINED_LATE, f"it rejoined after {join_ms} ms, without having been told to"
    if 2 * told_ms >= join_ms:
        return Why.TOLD_LATE, f"its next heartbeat came after {told_ms} ms{moved}"
    later_ms = join_ms - told_ms
    if not track.told_by_heartbeat and busy:  # some clients pause after another answer that says so
        busy = _BUSY_OR_SLOW
    return Why.REJOINED_LATE, f"it was told after {told_ms} ms and rejoined {later_ms} ms later{moved}{busy}"


def _why_unsynced(entry: OpenEntry, track: MemberTrack, sync_ms: int) -> tuple[Why, str]:
    leads = track.name.member_id == entry.leader_id
    if track.synced_ms is None:
        what = "hand in the assignment" if leads else "ask for its assignment"
        return Why.NEVER_SYNCED, f"it joined and did not {what} for {sync_ms} ms"
    if leads:
        return Why.SYNCED_LATE, f"it leads, and its assignment came {sync_ms} ms after all had joined"
    return Why.SYNCED_LATE, f"it asked for its assignment {sync_ms} ms after all had joined"


def _with_faults(also: list[AlsoActed], why: Why) -> str:
    faults = [act.what for act in also if act.kind == _FAULT]
    if not faults or why is Why.SYNCED_LATE:
        return ""
    return f" (meanwhile: fault {faults[-1]})"
