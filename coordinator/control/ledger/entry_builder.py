"""Builds the ledger entry of a classic rebalance from its recorded progress: durations, timelines of members,
partitions, and the longest wait with its reason.

Partitions are decoded only from assignments of the consumer protocol, and only up to a size that does not
delay other requests. Text from clients is made printable and shortened. The reason of a wait follows from the
times at which the member learned of the rebalance, rejoined, and requested its assignment.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.control.consumer_protocol_payloads import decode_assigned_partitions
from coordinator.control.ledger.ledger_entry import (
    EntryResult,
    LedgerEntry,
    LongestWait,
    MemberTimeline,
    RealTimes,
    RelatedAction,
    WaitReason,
    is_clock_moved,
)
from coordinator.control.ledger.rebalance_in_progress import (
    MemberProgress,
    RebalanceInProgress,
    WaitsByMember,
)
from coordinator.core.message_text import printable
from coordinator.group.classic.classic_state_machine import EMPTY, STABLE
from coordinator.group.event_details import DepartureCause
from coordinator.group.group_event_types import RebalanceCompleted
from protocol.consumer_protocol import PROTOCOL_TYPE

MAX_NAME_CHARS: Final = 300


def format_name(text: str) -> str:
    """Return a name in the form of ledger entries: printable and shortened."""
    return printable(text, MAX_NAME_CHARS)


def format_optional_name(text: str | None) -> str | None:
    """Return a name in the form of ledger entries, or None."""
    return None if text is None else printable(text, MAX_NAME_CHARS)


PartitionsByTopic = Mapping[str, frozenset[int]]
"""Partition numbers by topic."""
NO_PARTITIONS: Final[PartitionsByTopic] = {}

MAX_ASSIGNMENT_BYTES: Final = 65_536
"""The maximum size of an assignment that is decoded, in bytes. Decoding a larger one would delay other
requests."""
MAX_GENERATION_BYTES: Final = 1_048_576
"""The maximum size of all decoded assignments of one generation together, in bytes, for the same reason."""
MAX_NAMED_PARTITIONS: Final = 2_000
"""The maximum number of partitions that an entry names. Further ones are only counted."""


def decode_partitions(data: bytes, protocol_type: str | None) -> PartitionsByTopic | None:
    """Return the partitions of an assignment, or None if it is not of the consumer protocol."""
    if not data:
        return NO_PARTITIONS
    if protocol_type != PROTOCOL_TYPE or len(data) > MAX_ASSIGNMENT_BYTES:
        return None
    partitions = decode_assigned_partitions(data)
    if partitions is None:
        return None
    return {topic: frozenset(numbers) for topic, numbers in partitions.items()}


def subtract_partitions(owned: PartitionsByTopic, others: PartitionsByTopic) -> PartitionsByTopic:
    """Return the partitions that are not among the others."""
    if not others:
        return owned
    left = {topic: numbers - others.get(topic, frozenset()) for topic, numbers in owned.items()}
    return {topic: numbers for topic, numbers in left.items() if numbers}


def count_owned(owned: PartitionsByTopic) -> int:
    """Count the owned partitions."""
    return sum(map(len, owned.values()))


class PartitionNamer:
    """Lists the names of partitions, up to a total number of names."""

    def __init__(self) -> None:
        self._left = MAX_NAMED_PARTITIONS

    def list_names(self, owned: PartitionsByTopic) -> list[str]:
        """Return sorted names such as `orders-2`."""
        return [
            f"{topic}-{number}" for topic, numbers in self.list_by_topic(owned).items() for number in numbers
        ]

    def list_by_topic(self, owned: PartitionsByTopic) -> dict[str, list[int]]:
        """Return sorted partition numbers by topic."""
        named: dict[str, list[int]] = {}
        for topic, numbers in sorted(owned.items()):
            some = sorted(numbers)[: self._left]
            self._left -= len(some)
            if some:
                named[format_name(topic)] = some
        return named


LARGE_MEMBERS: Final = 50
"""An entry with more members names only some of them: the leader, the slowest and the failed ones."""
MAX_SLOWEST: Final = 10
"""The maximum number of members with the longest waits in an entry of a large group."""
MAX_FAILED: Final = 200
"""The maximum number of members in such an entry that are gone, or never sent a SyncGroup."""
MAX_REASON: Final = 1_000
MAX_UNOWNED: Final = 100
"""The maximum number of named partitions without an owner."""

CountPartitions = Callable[[str], int | None]
"""Returns the number of partitions of a topic, or None for an unknown topic."""


def build_entry(
    entry: RebalanceInProgress,
    result: EntryResult,
    now_ms: int,
    real: RealTimes,
    missed: Mapping[str, list[int]],
    count_partitions: CountPartitions,
) -> LedgerEntry:
    """Return the entry as of a monotonic time of its group, without its real times.

    `real` has the durations until now in the time of the process. `missed` has the generations that members missed
    before.
    """
    completed = entry.completed
    owned = _decode_owned(completed)
    all_progress = list(entry.members.values())
    waits = entry.compute_waits(now_ms)
    named = _select_members(entry, all_progress, waits)
    naming = PartitionNamer()
    is_over = result is not EntryResult.OPEN
    members = [_build_timeline(entry, progress, owned, naming, missed, waits, is_over) for progress in named]
    unowned, unowned_count = _find_unowned(completed, owned, count_partitions)
    end_ms = now_ms if entry.settled_ms is None else entry.settled_ms
    joined_ms = end_ms if entry.stabilized_ms is None else entry.stabilized_ms
    trigger = entry.started.trigger
    gone_count = sum(progress.gone_cause is not None for progress in all_progress) + entry.late_members_gone
    leader = None if entry.leader_id is None else entry.members.get(entry.leader_id)
    return LedgerEntry(
        seq=entry.last_seq,
        group_id=entry.group_id,
        generation_id=entry.generation_id,
        result=result,
        cause=entry.cause,
        reason=printable(trigger.reason, MAX_REASON),
        client_reason=printable(trigger.client_reason, MAX_REASON),
        actor=entry.actor,
        also=list(entry.related_actions),
        attempts=entry.attempt,
        started_ms=entry.wall_ms,
        group_time_ms=entry.started_wall_ms,
        join_ms=joined_ms - entry.started_ms,
        sync_ms=end_ms - joined_ms,
        total_ms=end_ms - entry.started_ms,
        real=None,
        from_state=entry.started.state,
        protocol_name=format_optional_name(entry.protocol_name),
        leader=None if leader is None else format_name(leader.name.client_id),
        leader_id=format_optional_name(entry.leader_id),
        members=members,
        members_left_out=len(all_progress) - len(named) + entry.late_members_gone,
        members_count=len(all_progress) + entry.late_members_gone - gone_count,
        gone_count=gone_count,
        awaited_longest=find_longest_wait(
            entry, waits, is_clock_moved=is_clock_moved(end_ms - entry.started_ms, real)
        ),
        unowned=unowned,
        unowned_count=unowned_count,
    )


def determine_result(entry: RebalanceInProgress) -> EntryResult:
    """Return the result of a closed entry."""
    if entry.completed is None:
        return EntryResult.FAILED
    return EntryResult.EMPTY if entry.completed.state == EMPTY.value else EntryResult.STABLE


def compute_real_times(entry: RebalanceInProgress, now_ns: int) -> RealTimes:
    """Return the durations by the process's clock."""
    end_ns = now_ns if entry.completed is None else entry.real_settled_ns
    joined_ns = end_ns if entry.stabilized_ms is None else entry.real_stabilized_ns
    return RealTimes(
        join_ms=(joined_ns - entry.real_started_ns) // 1_000_000,
        sync_ms=(end_ns - joined_ns) // 1_000_000,
        total_ms=(end_ns - entry.real_started_ns) // 1_000_000,
    )


def missed_generation(progress: MemberProgress) -> bool:
    """Return whether a member is not in the generation of a completed entry, or did not fetch its assignment."""
    return progress.gone_cause is not None or progress.synced_ms is None


# Members


def _select_members(
    entry: RebalanceInProgress, all_progress: list[MemberProgress], waits: WaitsByMember
) -> list[MemberProgress]:
    if len(all_progress) <= LARGE_MEMBERS:
        return all_progress
    slowest = sorted(all_progress, key=lambda progress: sum(waits[progress.name.member_id]), reverse=True)[
        :MAX_SLOWEST
    ]
    failed = [progress for progress in all_progress if missed_generation(progress)][:MAX_FAILED]
    wanted = {progress.name.member_id for progress in (*slowest, *failed)} | {entry.leader_id}
    if entry.actor is not None:
        wanted.add(entry.actor.member_id)
    return [progress for progress in all_progress if progress.name.member_id in wanted]


def _build_timeline(
    entry: RebalanceInProgress,
    progress: MemberProgress,
    owned_by_all: Mapping[str, PartitionsByTopic] | None,
    naming: PartitionNamer,
    missed: Mapping[str, list[int]],
    waits: WaitsByMember,
    is_over: bool,
) -> MemberTimeline:
    name, assigned, completed = progress.name, progress.assigned, entry.completed
    protocol_type = None if completed is None else completed.protocol_type
    owned = None if owned_by_all is None or assigned is None else owned_by_all[assigned.member.member_id]
    before_data = progress.previous_assignment if assigned is None else assigned.before or b""
    before: PartitionsByTopic | None = NO_PARTITIONS
    if assigned is None or before_data != assigned.assignment:
        before = decode_partitions(before_data, protocol_type)
    else:
        before = owned
    gained = NO_PARTITIONS if owned is None or before is None else subtract_partitions(owned, before)
    lost = NO_PARTITIONS if before is None else subtract_partitions(before, owned or NO_PARTITIONS)
    if assigned is not None and owned is None:
        lost = NO_PARTITIONS
    generations = missed.get(name.member_id, [])
    if is_over and completed is not None and missed_generation(progress):
        generations = [*generations, entry.generation_id]
    started_ms = entry.started_ms
    return MemberTimeline(
        member_id=format_name(name.member_id),
        group_instance_id=format_optional_name(name.group_instance_id),
        client_id=format_name(name.client_id),
        client_host=format_name(name.client_host),
        is_new=progress.is_new if assigned is None else assigned.is_new,
        told_after_ms=_to_relative_ms(progress.told_ms, started_ms),
        rejoined_after_ms=_to_relative_ms(progress.rejoined_ms, started_ms),
        synced_after_ms=_to_relative_ms(progress.synced_ms, started_ms),
        awaited_ms=sum(waits[name.member_id]),
        owned=None if owned is None else naming.list_by_topic(owned),
        owned_count=0 if owned is None else count_owned(owned),
        gained=naming.list_names(gained),
        gained_count=count_owned(gained),
        lost=naming.list_names(lost),
        lost_count=count_owned(lost),
        commits_refused=progress.commits_refused,
        gone=progress.gone_cause,
        missed_generations=generations,
    )


def _to_relative_ms(instant_ms: int | None, started_ms: int) -> int | None:
    return None if instant_ms is None else instant_ms - started_ms


# Partitions


def _decode_owned(completed: RebalanceCompleted | None) -> dict[str, PartitionsByTopic] | None:
    """Return the partitions by member id, or None if an assignment is unreadable or all are too large
    together."""
    if completed is None or sum(len(one.assignment) for one in completed.members) > MAX_GENERATION_BYTES:
        return None
    read: dict[bytes, PartitionsByTopic] = {}
    owned: dict[str, PartitionsByTopic] = {}
    for one in completed.members:
        partitions: PartitionsByTopic | None = read.get(one.assignment)  # in a large group most may be empty
        if partitions is None:
            partitions = decode_partitions(one.assignment, completed.protocol_type)
            if partitions is None:
                return None
            read[one.assignment] = partitions
        owned[one.member.member_id] = partitions
    return owned


def _find_unowned(
    completed: RebalanceCompleted | None,
    owned: Mapping[str, PartitionsByTopic] | None,
    count_partitions: CountPartitions,
) -> tuple[list[str], int]:
    if completed is None or owned is None or completed.state != STABLE.value:
        return [], 0
    names: list[str] = []
    count = 0
    for topic in completed.subscribed_topics or ():
        total = count_partitions(topic) or 0
        taken = _find_taken(topic, owned.values())
        missing = total - sum(number < total for number in taken)
        count += missing
        if missing and len(names) < MAX_UNOWNED:
            free = (number for number in range(total) if number not in taken)
            names += [
                f"{format_name(topic)}-{number}" for number, _ in zip(free, range(MAX_UNOWNED), strict=False)
            ]
    return names[:MAX_UNOWNED], count


def _find_taken(topic: str, owned: Iterable[PartitionsByTopic]) -> set[int]:
    taken: set[int] = set()
    for one in owned:
        taken |= one.get(topic, frozenset())
    return taken


# Longest wait

_FAULT: Final = "fault"
_BUSY: Final = ": its application was busy, in poll or in a callback"
_BUSY_OR_SLOW: Final = ": its client held back, or its application was busy"
_GONE: Final = ": it is dead, starved or held"
_GROUP_TIME_NOTE: Final = " of group time, which was not the real one"


def find_longest_wait(
    entry: RebalanceInProgress, waits: WaitsByMember, *, is_clock_moved: bool
) -> LongestWait | None:
    """Return the member for which a group waited longest, or None.

    `is_clock_moved`: the clock of the group was changed, so its times do not show how long a client was busy.
    """
    member_id, most = max(waits.items(), key=_sum_waits, default=("", (0, 0)))
    if not sum(most):
        return None
    longest = entry.members[member_id]
    why, because = _explain_wait(entry, longest, *most, is_clock_moved=is_clock_moved)
    return LongestWait(
        member_id=format_name(longest.name.member_id),
        client_id=format_name(longest.name.client_id),
        ms=sum(most),
        why=why,
        because=because + _format_faults(entry.related_actions, why),
    )


def _sum_waits(waited: tuple[str, tuple[int, int]]) -> int:
    join_ms, sync_ms = waited[1]
    return join_ms + sync_ms


def _explain_wait(
    entry: RebalanceInProgress, progress: MemberProgress, join_ms: int, sync_ms: int, *, is_clock_moved: bool
) -> tuple[WaitReason, str]:
    busy, gone, moved = ("", "", _GROUP_TIME_NOTE) if is_clock_moved else (_BUSY, _GONE, "")
    if sync_ms > join_ms:
        return _explain_sync_wait(entry, progress, sync_ms)
    told_ms = None if progress.told_ms is None else progress.told_ms - entry.started_ms
    if progress.rejoined_ms is None:
        if progress.id_given_ms is not None:
            return (
                WaitReason.REJOINED_LATE,
                f"it got a member id and did not come back with it for {join_ms} ms",
            )
        if told_ms is None:
            return WaitReason.NEVER_TOLD, f"no heartbeat came from it in {join_ms} ms{moved}{gone}"
        if progress.gone_cause == DepartureCause.SESSION_EXPIRED.value:
            return (
                WaitReason.TOLD_BUT_SILENT,
                f"it learned of the rebalance after {told_ms} ms and sent nothing since: it died or stopped",
            )
        return (
            WaitReason.TOLD_BUT_SILENT,
            f"it learned of the rebalance after {told_ms} ms{moved} and did not rejoin{busy}",
        )
    if told_ms is None:
        if progress.id_given_ms is not None and not progress.was_member:
            return WaitReason.REJOINED_LATE, f"it came back with its new member id after {join_ms} ms"
        return WaitReason.REJOINED_LATE, f"it rejoined after {join_ms} ms, before a response asked it to"
    if 2 * told_ms >= join_ms:
        return WaitReason.TOLD_LATE, f"its next heartbeat came after {told_ms} ms{moved}"
    later_ms = join_ms - told_ms
    if not progress.told_by_heartbeat and busy:  # some clients pause after another response
        busy = _BUSY_OR_SLOW
    return (
        WaitReason.REJOINED_LATE,
        f"it learned of the rebalance after {told_ms} ms and rejoined {later_ms} ms later{moved}{busy}",
    )


def _explain_sync_wait(
    entry: RebalanceInProgress, progress: MemberProgress, sync_ms: int
) -> tuple[WaitReason, str]:
    leads = progress.name.member_id == entry.leader_id
    if progress.synced_ms is None:
        what = "hand in the assignment" if leads else "ask for its assignment"
        return WaitReason.NEVER_SYNCED, f"it joined and did not {what} for {sync_ms} ms"
    if leads:
        return WaitReason.SYNCED_LATE, f"it leads, and its assignment came {sync_ms} ms after all had joined"
    return WaitReason.SYNCED_LATE, f"it asked for its assignment {sync_ms} ms after all had joined"


def _format_faults(actions: list[RelatedAction], why: WaitReason) -> str:
    faults = [action.what for action in actions if action.kind == _FAULT]
    if not faults or why is WaitReason.SYNCED_LATE:
        return ""
    return f" (meanwhile: fault {faults[-1]})"
