"""Formats ledger entries as text for a terminal:

    #3  12:04:51.218  session expired: bob (127.0.0.1, last heard 6.0 s before, connection closed)   paused 2.69 s
        alice told 2.69 s late (heartbeat interval), rejoined +2 ms, synced +1 ms; carol +1.10 s
        alice 0 1 2 (+2)   carol 3 4 5 (+3)   lost by bob: 2 3

The first line has the generation, its start, its cause, and the time without progress. The second line has the
joins in their order, the last with its reason. The third line has the assignment, with gained and lost
partitions. In a consumer group (KIP-848), which does not pause, the first line has the time until all members had
their target.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.control.ledger.ledger_entry import (
    Actor,
    EntryResult,
    LedgerEntry,
    MemberTimeline,
    WaitReason,
    is_clock_moved,
)
from coordinator.core.clock import format_time_of_day
from coordinator.core.message_text import (
    format_duration,
    format_list,
    format_ranges,
    printable,
)

_INDENT: Final = "    "
_MAX_TIMED: Final = 6
_SHORT_MS: Final = 100
"""Waits below this duration in milliseconds have no line with a reason."""
_MAX_OWNERS: Final = 20
_MAX_LISTED: Final = 12
_ENDED_RESULTS: Final = (EntryResult.STABLE, EntryResult.EMPTY)


def format_entries(entries: Sequence[LedgerEntry], *, with_group: bool = False) -> str:
    """Format entries one after the other; with the names of their groups if they belong to several groups."""
    if not entries:
        return "No rebalances.\n"
    return "".join(format_entry(entry, with_group=with_group) for entry in entries)


def format_entry(entry: LedgerEntry, *, with_group: bool = False) -> str:
    """Format one entry in lines of its own."""
    group = f"{printable(entry.group_id)} " if with_group else ""
    head = (
        f"{group}#{entry.generation_id}  {format_time_of_day(entry.started_ms)}  {_format_cause(entry)} "
        f"  {_format_result(entry)}"
    )
    lines = [head]
    lines += [
        f"also: {action.kind} {action.what}" + (f" (by {action.by})" if action.by else "")
        for action in entry.also
    ]
    if entry.client_reason:
        lines.append(f"client's reason: {entry.client_reason}")
    for line in (
        _format_joins(entry),
        _format_reached(entry),
        _format_longest_wait(entry),
        _format_revocations(entry),
        _format_owners(entry),
        _format_unowned(entry),
    ):
        if line:
            lines.append(line)
    return f"\n{_INDENT}".join(lines) + "\n"


def _format_cause(entry: LedgerEntry) -> str:
    return entry.cause if entry.actor is None else f"{entry.cause}: {_format_actor(entry.actor)}"


def _format_actor(actor: Actor) -> str:
    parts = [actor.client_host.removeprefix("/")]
    if actor.last_heard_ms_ago:
        parts.append(f"last heard {format_duration(actor.last_heard_ms_ago)} before")
        real_ms = actor.real.last_heard_ms_ago
        if real_ms is not None and abs(real_ms - actor.last_heard_ms_ago) > 1_000:
            parts[-1] += f", really {format_duration(real_ms)}"
    if actor.real.connection_closed_ms_ago is not None:
        parts.append("connection closed")
    who = actor.client_id or actor.member_id
    if actor.group_instance_id is not None:
        who += f" ({actor.group_instance_id})"
    return f"{who} ({', '.join(parts)})"


def _format_result(entry: LedgerEntry) -> str:
    if entry.result is EntryResult.OPEN:
        return f"open since {format_duration(entry.total_ms)}"
    took = format_duration(entry.total_ms)
    if _is_moved(entry) and entry.real is not None:
        took += f" of group time, really {format_duration(entry.real.total_ms)}"
    if entry.result is EntryResult.OVERTAKEN:
        return f"overtaken after {took}"
    again = f", attempt {entry.attempts}" if entry.attempts > 1 else ""
    if entry.result is EntryResult.FAILED:
        return f"aborted after {took}{again}"
    empty = ", empty now" if entry.result is EntryResult.EMPTY else ""
    return f"{'settled in' if _is_epoch(entry) else 'paused'} {took}{again}{empty}"


def _is_epoch(entry: LedgerEntry) -> bool:
    return entry.group_epoch is not None


def _is_moved(entry: LedgerEntry) -> bool:
    return entry.real is not None and is_clock_moved(entry.total_ms, entry.real)


def _format_joins(entry: LedgerEntry) -> str:
    """Format the times at which the members rejoined: the longest awaited one in full, then the others."""
    came = [story for story in entry.members if story.rejoined_after_ms is not None]
    came.sort(key=lambda story: story.awaited_ms, reverse=True)
    if not came:
        return ""
    others = [
        f"{_format_member(story)} +{format_duration(story.rejoined_after_ms or 0)}"
        for story in came[1:_MAX_TIMED]
    ]
    more = len(came) - 1 - len(others) + entry.members_left_out
    return "; ".join([_format_slowest_join(entry, came[0]), *others]) + (
        f" and {more} more" if more > 0 else ""
    )


def _format_reached(entry: LedgerEntry) -> str:
    """Return when the members of a consumer group had their target, latest first, with revoked partitions."""
    reached = [story for story in entry.members if story.reached_after_ms is not None]
    reached.sort(key=lambda story: story.reached_after_ms or 0, reverse=True)
    texts = []
    for story in reached[:_MAX_TIMED]:
        gave_up = f" (gave up for {format_duration(story.revoking_ms)})" if story.revoking_ms else ""
        texts.append(f"{_format_member(story)} +{format_duration(story.reached_after_ms or 0)}{gave_up}")
    return f"reached: {format_list(texts, len(reached), '; ')}" if texts else ""


def _format_revocations(entry: LedgerEntry) -> str:
    """Format the members that must revoke partitions, or had to when the entry was closed."""
    texts = [
        f"{_format_member(story)} has {story.revoking_count} for {format_duration(story.revoking_ms or 0)}"
        for story in entry.members
        if story.revoking_count
    ]
    return f"to give up: {'; '.join(texts[:_MAX_TIMED])}" if texts else ""


def _format_slowest_join(entry: LedgerEntry, story: MemberTimeline) -> str:
    assert story.rejoined_after_ms is not None, story.member_id
    parts = []
    since_ms = 0
    if story.told_after_ms is not None:
        longest = entry.awaited_longest
        late = (
            longest is not None
            and longest.member_id == story.member_id
            and longest.why is WaitReason.TOLD_LATE
        )
        after = f"told +{format_duration(story.told_after_ms)}"
        if late and story.told_after_ms >= _SHORT_MS and not _is_moved(entry):
            after = f"told {format_duration(story.told_after_ms)} late (heartbeat interval)"
        parts.append(after)
        since_ms = story.told_after_ms
    parts.append(f"rejoined +{format_duration(story.rejoined_after_ms - since_ms)}")
    if story.synced_after_ms is None:
        parts.append("never synced" if entry.result is not EntryResult.OPEN else "not synced yet")
    else:
        joined_ms = max(story.rejoined_after_ms, entry.join_ms)
        parts.append(f"synced +{format_duration(story.synced_after_ms - joined_ms)}")
    return f"{_format_member(story)} {', '.join(parts)}"


def _format_longest_wait(entry: LedgerEntry) -> str:
    longest = entry.awaited_longest
    if longest is None or longest.why is WaitReason.TOLD_LATE or longest.ms < _SHORT_MS:
        return ""
    who = longest.client_id or longest.member_id
    return f"awaited longest: {who} for {format_duration(longest.ms)}: {longest.because}"


def _format_owners(entry: LedgerEntry) -> str:
    topics = {topic for story in entry.members for topic in story.owned or ()}
    topics |= {name.rpartition("-")[0] for story in entry.members for name in story.lost}
    is_one = len(topics) == 1
    texts = []
    for story in entry.members:
        if story.gone is not None:
            continue
        if story.owned is not None:
            changes = [f"+{story.gained_count}"] if story.gained_count else []
            changes += [f"-{story.lost_count}"] if story.lost_count else []
            change = f" ({' '.join(changes)})" if changes else ""
            texts.append(f"{_format_member(story)} {_format_partitions(story, is_one=is_one)}{change}")
    for story in entry.members:
        if story.gone is not None and (entry.result in _ENDED_RESULTS or story.lost):
            what = _format_names(story.lost, story.lost_count, is_one=is_one) or "nothing"
            texts.append(f"lost by {_format_member(story)}: {what}")
    more = len(texts) - _MAX_OWNERS
    return "   ".join(texts[:_MAX_OWNERS]) + (f"   and {more} more" if more > 0 else "")


def _format_unowned(entry: LedgerEntry) -> str:
    if not entry.unowned_count:
        return ""
    return f"without an owner: {_format_names(entry.unowned, entry.unowned_count, is_one=False)}"


def _format_partitions(story: MemberTimeline, *, is_one: bool) -> str:
    owned = story.owned or {}
    texts = [
        (_format_partition_numbers(numbers) if is_one else f"{topic} {_format_partition_numbers(numbers)}")
        for topic, numbers in owned.items()
    ]
    more = story.owned_count - sum(map(len, owned.values()))
    return (", ".join(texts) or "nothing") + (f" and {more} more" if more else "")


def _format_names(names: Sequence[str], total: int, *, is_one: bool) -> str:
    some = [name.rpartition("-")[2] if is_one else name for name in names[:_MAX_LISTED]]
    return format_list(some, total, " ")


def _format_partition_numbers(numbers: Iterable[int]) -> str:
    """Format numbers as `0 1 2`, or as `0-11 14` if there are many."""
    listed = sorted(numbers)
    return " ".join(map(str, listed)) if len(listed) <= _MAX_LISTED else format_ranges(listed)


def _format_member(story: MemberTimeline) -> str:
    return story.group_instance_id or story.client_id or story.member_id
