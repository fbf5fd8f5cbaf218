"""An epoch of a consumer group (KIP-848) in progress, as group events have described it so far, and the
ledger entry built from it.

EpochBumped opens it. It is over when every member owns its target assignment of that epoch, or when the next
epoch begins. Times are monotonic group time in milliseconds, except for fields that are named `real` or
`wall`. Names of deleted topics are remembered.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.control.ledger.entry_builder import (
    LARGE_MEMBERS,
    MAX_FAILED,
    MAX_REASON,
    MAX_SLOWEST,
    NO_PARTITIONS,
    PartitionNamer,
    PartitionsByTopic,
    count_owned,
    format_name,
    format_optional_name,
    subtract_partitions,
)
from coordinator.control.ledger.ledger_entry import (
    Actor,
    EntryResult,
    LedgerEntry,
    LongestWait,
    MemberTimeline,
    RealTimes,
    RelatedAction,
    WaitReason,
)
from coordinator.control.ledger.rebalance_in_progress import (
    MAX_LATE_MEMBERS,
    MAX_RELATED_ACTIONS,
    EntryOpening,
)
from coordinator.core.message_text import printable
from coordinator.group.consumer.consumer_member import NO_TARGET, MemberState, TargetPartitions
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import EpochBumped, MemberReconciled, TargetComputed
from coordinator.group.group_types import GroupType
from coordinator.group.topics_image import TopicsImage

MAX_DELETED_TOPICS: Final = 1_000


class TopicNameCache:
    """The names of topics by id, including deleted topics. Callers must refresh it before a new topic can be
    deleted again."""

    def __init__(self, topics: Callable[[], TopicsImage]) -> None:
        self._topics = topics
        self._image = topics()
        self._deleted: OrderedDict[bytes, str] = OrderedDict()

    def refresh_names(self) -> None:
        """Update the names, and keep those of topics that were deleted since the last call."""
        image = self._topics()
        if image is not self._image:
            for name in self._image.find_deleted(image):
                self._deleted[self._image.by_name[name].topic_id] = name
                if len(self._deleted) > MAX_DELETED_TOPICS:
                    self._deleted.popitem(last=False)
            self._image = image

    def name_partitions(self, partitions: Mapping[bytes, Iterable[int]]) -> PartitionsByTopic:
        """Return partitions by topic name; by the id of a topic without a known name."""
        return {self._find_name(topic_id): frozenset(numbers) for topic_id, numbers in partitions.items()}

    def _find_name(self, topic_id: bytes) -> str:
        found = self._image.by_id.get(topic_id)
        return self._deleted.get(topic_id, topic_id.hex()) if found is None else found.name


_STABLE = MemberState.STABLE.name


class EpochMemberProgress:
    """The progress of one member.

    `told_ms`: it got the first part of its new target. `revoking`: the number of partitions that it has to
    revoke; `revoking_ms`: since when; `revoked_ms`: when it confirmed. `missing`: partitions of its target
    that other members have not revoked. `reached_ms`: when it reached its target.
    """

    __slots__ = (
        "before",
        "commits_refused",
        "gone_cause",
        "is_new",
        "member_epoch",
        "missing",
        "name",
        "reached_ms",
        "revoked_ms",
        "revoking",
        "revoking_ms",
        "target",
        "told_ms",
    )

    def __init__(self, name: MemberName) -> None:
        self.name = name
        self.is_new = False
        self.member_epoch: int | None = None
        self.before: TargetPartitions = NO_TARGET
        self.target: TargetPartitions | None = None
        self.told_ms: int | None = None
        self.revoking = 0
        self.revoking_ms: int | None = None
        self.revoked_ms: int | None = None
        self.missing = 0
        self.reached_ms: int | None = None
        self.gone_cause: str | None = None
        self.commits_refused = 0

    def count_refused_commit(self) -> None:
        """Count a commit of the member that the group refused."""
        self.commits_refused += 1

    def replace_name(self, name: MemberName) -> None:
        """Continue under the name of the static member that replaces this one."""
        self.name = name


class EpochInProgress:
    """An open epoch. `last_seq` is the number of its last event. `unreconciled` has the ids of members that have
    not reached their target, or None before this epoch has a target. `member_count` is the number of members of
    the group."""

    __slots__ = (
        "actor",
        "assignment_epoch",
        "assignor",
        "cause",
        "from_state",
        "group_epoch",
        "group_id",
        "last_seq",
        "member_count",
        "member_progress",
        "partition",
        "real_started_ns",
        "real_targeted_ns",
        "reason",
        "related_actions",
        "started_ms",
        "started_wall_ms",
        "targeted_ms",
        "unreconciled",
        "wall_ms",
    )

    def __init__(
        self,
        bumped: EpochBumped,
        opening: EntryOpening,
        cause: str,
        reason: str,
        actor: Actor | None,
        before: "EpochInProgress | None",
    ) -> None:
        self.group_id = bumped.group_id
        self.group_epoch = bumped.generation_id
        self.member_count = bumped.members
        self.partition, self.last_seq, now, self.real_started_ns, self.wall_ms = opening
        self.cause = cause
        self.reason = reason
        self.actor = actor
        self.related_actions: list[RelatedAction] = []
        self.from_state = bumped.state
        self.started_ms = now.monotonic_ms
        self.started_wall_ms = now.wall_ms
        """Unix time of the group's clock. `wall_ms` is the Unix time of the process."""
        self.targeted_ms: int | None = None
        self.real_targeted_ns: int | None = None
        self.assignment_epoch: int | None = None if before is None else before.assignment_epoch
        self.assignor: str | None = None
        self.unreconciled: set[str] | None = None
        self.member_progress: dict[str, EpochMemberProgress] = {}
        if before is not None:
            self._carry_over(before)

    def _carry_over(self, before: "EpochInProgress") -> None:
        """Carry members with partitions to revoke over from the previous epoch."""
        for member_id, old in before.member_progress.items():
            if old.revoking and old.gone_cause is None:
                progress = self.find_or_add_member(old.name)
                progress.member_epoch = old.member_epoch
                progress.revoking, progress.revoking_ms = old.revoking, old.revoking_ms
                self.member_progress[member_id] = progress

    @property
    def is_settled(self) -> bool:
        """Whether all members have their partitions, so that only a fault can delay them. Never true for an open
        epoch."""
        return False

    def record_event(self, number: int) -> None:
        """Record the number of the last event of the epoch."""
        self.last_seq = number

    @property
    def is_complete(self) -> bool:
        """Whether every member has reached its target. This also holds for an empty group."""
        return not self.member_count or (self.unreconciled is not None and not self.unreconciled)

    def find_or_add_member(self, name: MemberName) -> EpochMemberProgress:
        """Return the progress of a member; create it if it is missing."""
        found = self.member_progress.get(name.member_id)
        if found is None:
            found = self.member_progress[name.member_id] = EpochMemberProgress(name)
        return found

    def mark_new(self, name: MemberName) -> None:
        """Record that a member joined with this epoch."""
        progress = self.find_or_add_member(name)
        progress.is_new = True

    def mark_gone(self, name: MemberName, cause: str, before: TargetPartitions) -> None:
        """Record that a member left, with its target before."""
        progress = self.find_or_add_member(name)
        progress.gone_cause, progress.before, progress.revoking, progress.missing = cause, before, 0, 0

    def replace_member(self, old_member_id: str, name: MemberName) -> None:
        """Continue the progress of a static member under another member id."""
        progress = self.member_progress.pop(old_member_id, None)
        if progress is not None:
            progress.replace_name(name)
            self.member_progress[name.member_id] = progress
        if self.unreconciled is not None and old_member_id in self.unreconciled:
            self.unreconciled.remove(old_member_id)
            self.unreconciled.add(name.member_id)

    def set_target(self, computed: TargetComputed, now_ms: int, real_ns: int) -> None:
        """Record a new target. All members have yet to fetch it."""
        self.targeted_ms, self.real_targeted_ns = now_ms, real_ns
        self.assignment_epoch, self.assignor = computed.generation_id, computed.assignor
        for one in computed.targets:
            progress = self.find_or_add_member(one.member)
            progress.before, progress.target = one.before, one.target
        self.unreconciled = {one.member.member_id for one in computed.targets}

    def record_reconciliation(self, event: MemberReconciled, now_ms: int) -> None:
        """Record a reconciliation step of a member."""
        if (
            len(self.member_progress) > self.member_count + MAX_LATE_MEMBERS
            and event.member.member_id not in self.member_progress
        ):
            return
        progress = self.find_or_add_member(event.member)
        progress.member_epoch, progress.missing = event.member_epoch, event.missing
        if self.unreconciled is not None and progress.told_ms is None:
            progress.told_ms = now_ms
        if event.pending and not progress.revoking:
            progress.revoking_ms, progress.revoked_ms = now_ms, None
        elif progress.revoking and not event.pending:
            progress.revoked_ms = now_ms
        progress.revoking = event.pending
        is_there = event.member_epoch == self.group_epoch and event.state == _STABLE
        if self.unreconciled is not None and is_there and event.member.member_id in self.unreconciled:
            progress.reached_ms = now_ms
            self.unreconciled.remove(event.member.member_id)

    def add_related_action(self, action: RelatedAction) -> None:
        """Add an operator action, up to a limit."""
        if len(self.related_actions) < MAX_RELATED_ACTIONS and action not in self.related_actions:
            self.related_actions.append(action)


def build_epoch_entry(
    entry: EpochInProgress, result: EntryResult, now_ms: int, real_ns: int, names: TopicNameCache
) -> LedgerEntry:
    """Return the entry at a monotonic time of the group (milliseconds) and of the process (nanoseconds). An open
    entry has no real times."""
    all_progress = list(entry.member_progress.values())
    named = _select_members(entry, all_progress, now_ms)
    naming = PartitionNamer()
    targeted_ms = now_ms if entry.targeted_ms is None else entry.targeted_ms
    gone_count = sum(progress.gone_cause is not None for progress in all_progress)
    members_count = max(entry.member_count, len(all_progress) - gone_count)
    return LedgerEntry(
        type=GroupType.CONSUMER.value,
        seq=entry.last_seq,
        group_id=entry.group_id,
        generation_id=entry.group_epoch,
        group_epoch=entry.group_epoch,
        assignment_epoch=entry.assignment_epoch,
        result=result,
        cause=entry.cause,
        reason=printable(entry.reason, MAX_REASON),
        client_reason="",
        actor=entry.actor,
        also=list(entry.related_actions),
        attempts=1,
        started_ms=entry.wall_ms,
        group_time_ms=entry.started_wall_ms,
        join_ms=targeted_ms - entry.started_ms,
        sync_ms=now_ms - targeted_ms,
        total_ms=now_ms - entry.started_ms,
        real=None if result is EntryResult.OPEN else _compute_real_times(entry, real_ns),
        from_state=entry.from_state,
        protocol_name=format_optional_name(entry.assignor),
        leader=None,
        leader_id=None,
        members=[_build_timeline(entry, progress, naming, now_ms, names) for progress in named],
        members_left_out=members_count + gone_count - len(named),
        members_count=members_count,
        gone_count=gone_count,
        awaited_longest=_find_longest_wait(entry, all_progress, now_ms),
        unowned=[],
        unowned_count=0,
    )


def _compute_real_times(entry: EpochInProgress, now_ns: int) -> RealTimes:
    targeted_ns = now_ns if entry.real_targeted_ns is None else entry.real_targeted_ns
    return RealTimes(
        join_ms=(targeted_ns - entry.real_started_ns) // 1_000_000,
        sync_ms=(now_ns - targeted_ns) // 1_000_000,
        total_ms=(now_ns - entry.real_started_ns) // 1_000_000,
    )


def _compute_awaited_ms(entry: EpochInProgress, progress: EpochMemberProgress, now_ms: int) -> int:
    """Return the milliseconds from the computation of the target until the member reached it."""
    if progress.gone_cause is not None or progress.target is None or entry.targeted_ms is None:
        return 0
    return (now_ms if progress.reached_ms is None else progress.reached_ms) - entry.targeted_ms


def _select_members(
    entry: EpochInProgress, all_progress: list[EpochMemberProgress], now_ms: int
) -> list[EpochMemberProgress]:
    if len(all_progress) <= LARGE_MEMBERS:
        return all_progress
    slowest = sorted(
        all_progress, key=lambda progress: _compute_awaited_ms(entry, progress, now_ms), reverse=True
    )[:MAX_SLOWEST]
    failed = [
        progress
        for progress in all_progress
        if progress.gone_cause is not None or progress.revoking or progress.missing
    ]
    wanted = {progress.name.member_id for progress in (*slowest, *failed[:MAX_FAILED])}
    if entry.actor is not None:
        wanted.add(entry.actor.member_id)
    return [progress for progress in all_progress if progress.name.member_id in wanted]


def _build_timeline(
    entry: EpochInProgress,
    progress: EpochMemberProgress,
    naming: PartitionNamer,
    now_ms: int,
    names: TopicNameCache,
) -> MemberTimeline:
    name, started_ms = progress.name, entry.started_ms
    before = names.name_partitions(progress.before)
    owned = None if progress.target is None else names.name_partitions(progress.target)
    if progress.gone_cause is not None:
        gained, lost = NO_PARTITIONS, before
    elif owned is None:
        gained, lost = NO_PARTITIONS, NO_PARTITIONS
    else:
        gained, lost = subtract_partitions(owned, before), subtract_partitions(before, owned)
    until_ms = now_ms if progress.revoked_ms is None else progress.revoked_ms
    return MemberTimeline(
        member_id=format_name(name.member_id),
        group_instance_id=format_optional_name(name.group_instance_id),
        client_id=format_name(name.client_id),
        client_host=format_name(name.client_host),
        is_new=progress.is_new,
        told_after_ms=None if progress.told_ms is None else progress.told_ms - started_ms,
        rejoined_after_ms=None,
        synced_after_ms=None,
        awaited_ms=_compute_awaited_ms(entry, progress, now_ms),
        owned=None if owned is None else naming.list_by_topic(owned),
        owned_count=0 if owned is None else count_owned(owned),
        gained=naming.list_names(gained),
        gained_count=count_owned(gained),
        lost=naming.list_names(lost),
        lost_count=count_owned(lost),
        commits_refused=progress.commits_refused,
        gone=progress.gone_cause,
        missed_generations=[],
        member_epoch=progress.member_epoch,
        reached_after_ms=None if progress.reached_ms is None else progress.reached_ms - started_ms,
        revoking_count=progress.revoking,
        revoking_ms=None if progress.revoking_ms is None else until_ms - progress.revoking_ms,
        missing_count=progress.missing,
    )


def _find_longest_wait(
    entry: EpochInProgress, all_progress: list[EpochMemberProgress], now_ms: int
) -> LongestWait | None:
    """Return the member that made others wait for its partitions longest, or else the one with the last
    heartbeat."""
    present = [
        progress for progress in all_progress if progress.gone_cause is None and progress.target is not None
    ]
    if not present:
        return None
    longest = max(present, key=lambda progress: _compute_revoking_ms(entry, progress, now_ms))
    ms = _compute_revoking_ms(entry, longest, now_ms)
    if ms:
        why = WaitReason.NEVER_REVOKED if longest.revoking else WaitReason.REVOKED_LATE
        because = f"it had partitions to give up for {ms} ms"
    else:
        longest = max(present, key=lambda progress: _compute_awaited_ms(entry, progress, now_ms))
        ms, why = _compute_awaited_ms(entry, longest, now_ms), WaitReason.TOLD_LATE
        because = f"its heartbeat came after {ms} ms"
    if not ms:
        return None
    return LongestWait(
        member_id=format_name(longest.name.member_id),
        client_id=format_name(longest.name.client_id),
        ms=ms,
        why=why,
        because=because,
    )


def _compute_revoking_ms(entry: EpochInProgress, progress: EpochMemberProgress, now_ms: int) -> int:
    """Return the milliseconds for which a member has been revoking partitions in this epoch."""
    if progress.revoking_ms is None:
        return 0
    until_ms = now_ms if progress.revoked_ms is None else progress.revoked_ms
    return until_ms - max(progress.revoking_ms, entry.started_ms)
