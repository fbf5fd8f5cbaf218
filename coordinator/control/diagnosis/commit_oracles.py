"""Oracles for committed offsets.

`commit_beyond_end`: an offset lies beyond the end of its partition. A consumer that continues there reads
nothing, or restarts at the position that auto.offset.reset selects.

`commit_went_back`: a member's commit lowers an offset. The records are processed again. A possible cause is an
old owner that overwrites the progress of a new one. Offsets that a tool sets while the group is empty do not
count.

`zombie_commit`: the coordinator refused a commit because its sender is no longer a member or missed a generation.
Another member may process the same records again, or has done so. A commit without membership, as by a tool, does
not count.
"""

from collections.abc import Hashable
from typing import Final

from coordinator.control.consumer_protocol_payloads import (
    PartitionKey,
    format_partition,
    list_member_partitions,
)
from coordinator.control.diagnosis.commit_observer import StoredCommit
from coordinator.control.diagnosis.oracle import EventHandler, OracleContext, format_member, format_member_at
from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity, WrittenOffset
from coordinator.core.message_text import printable
from coordinator.group.event_details import RefusedOffset
from coordinator.group.group_event_types import CommitRefused, GroupEvent
from coordinator.group.group_view import GroupView, MemberView
from protocol.error_codes import ErrorCode


class CommitBeyondEnd:
    """Checks whether stored offsets lie beyond the end of their partition."""

    name: Final = OracleName.COMMIT_BEYOND_END
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self.handlers: dict[type[GroupEvent], EventHandler] = {}

    def check_group(self, group_id: str) -> None:
        """This oracle schedules no check."""

    def on_commit(self, commit: StoredCommit) -> None:
        """Check a stored offset."""
        end = self._context.find_log_end(commit.topic, commit.partition)
        if end is None or commit.offset <= end:
            return
        place = commit.topic, commit.partition
        about = place, commit.writer.member_id, commit.writer.client_id
        if self._context.report_repeated((self.name, commit.group_id, about)):
            return
        is_member = commit.generation_id >= 0
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=commit.group_id,
                generation_id=commit.generation_id if is_member else None,
                identity=about,
                detail=f"{format_member_at(commit.writer)} committed {commit.offset} of "
                f"{printable(format_partition(place))}, which ends at {end}.",
                members=[commit.writer] if is_member else [],
                partitions=[place],
                before=WrittenOffset(
                    offset=commit.before, member_id=None, client_id=None, generation_id=None
                ),
                after=WrittenOffset(
                    offset=commit.offset,
                    member_id=commit.writer.member_id,
                    client_id=commit.writer.client_id,
                    generation_id=commit.generation_id,
                ),
                subject=commit.writer.member_id,
            )
        )


MAX_WRITERS: Final = 50_000
"""The maximum number of partitions for which the last writer is remembered."""

_OffsetKey = tuple[str, str, int]


class CommitWentBack:
    """Checks whether stored offsets are lower than the previous ones of their partition."""

    name: Final = OracleName.COMMIT_WENT_BACK
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self.handlers: dict[type[GroupEvent], EventHandler] = {}
        self._last: dict[_OffsetKey, StoredCommit] = {}
        """The last commit of each partition, the newest last."""

    def check_group(self, group_id: str) -> None:
        """This oracle schedules no check."""

    def on_commit(self, commit: StoredCommit) -> None:
        """Check a stored offset."""
        place = commit.group_id, commit.topic, commit.partition
        last = self._last.pop(place, None)
        self._last[place] = commit
        if len(self._last) > MAX_WRITERS:
            del self._last[next(iter(self._last))]
        if commit.before is None or commit.offset >= commit.before or commit.generation_id < 0:
            return
        about = commit.topic, commit.partition, commit.writer.member_id
        if self._context.report_repeated((self.name, commit.group_id, about)):
            return
        # The oracle may not know the writer of `before`, for example a client of an earlier process.
        before = last if last is not None and last.offset == commit.before else None
        self._report(commit, commit.before, before, about)

    def _report(
        self, commit: StoredCommit, offset: int, before: StoredCommit | None, about: Hashable
    ) -> None:
        partition = printable(format_partition((commit.topic, commit.partition)))
        had = f"{offset} was committed"
        if before is not None:
            had += f" by {format_member_at(before.writer)}"
            had += (
                f" in generation {before.generation_id}"
                if before.generation_id >= 0
                else " without membership"
            )
        is_same = before is None or before.writer.member_id == commit.writer.member_id
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=commit.group_id,
                generation_id=commit.generation_id,
                identity=about,
                detail=f"{format_member_at(commit.writer)} set {partition} back to {commit.offset} in generation "
                f"{commit.generation_id}, where {had}.",
                members=[commit.writer] if before is None or is_same else [commit.writer, before.writer],
                partitions=[(commit.topic, commit.partition)],
                before=WrittenOffset(
                    offset=offset,
                    member_id=None if before is None else before.writer.member_id,
                    client_id=None if before is None else before.writer.client_id,
                    generation_id=None if before is None else before.generation_id,
                ),
                after=WrittenOffset(
                    offset=commit.offset,
                    member_id=commit.writer.member_id,
                    client_id=commit.writer.client_id,
                    generation_id=commit.generation_id,
                ),
                subject=commit.writer.member_id,
            )
        )


_ZOMBIE_ERRORS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

MIN_LOOKUP_INTERVAL_MS: Final = 100
"""The minimum time between two lookups of a partition's owner. Reports of commits in between leave the owner
out."""


class ZombieCommit:
    """Checks commits that the coordinator refused."""

    name: Final = OracleName.ZOMBIE_COMMIT
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self._next_lookup_ms = 0
        self.handlers: dict[type[GroupEvent], EventHandler] = {CommitRefused: self._on_commit_refused}

    def check_group(self, group_id: str) -> None:
        """This oracle schedules no check."""

    def _may_look_up(self) -> bool:
        """Return whether a lookup of a group is due. Lookups take time, and a client can send refused commits
        with new ids without end."""
        now_ms = self._context.now_ms()
        if now_ms < self._next_lookup_ms:
            return False
        self._next_lookup_ms = now_ms + MIN_LOOKUP_INTERVAL_MS
        return True

    def _on_commit_refused(self, event: CommitRefused) -> None:
        sender = event.member
        if event.error not in _ZOMBIE_ERRORS or not sender.member_id:
            return
        about = (sender.member_id, sender.client_id, event.error)
        if self._context.report_repeated((self.name, event.group_id, about)):
            return
        view = self._context.find_group(event.group_id) if self._may_look_up() else None
        first = event.offsets[0] if event.offsets else None
        owner = None if view is None or first is None else _find_owner(view, (first.topic, first.partition))
        generation = "" if event.generation_id is None else f" for generation {event.generation_id}"
        what = "" if first is None else f" of {printable(format_partition(first[:2]))}={first.offset}"
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                identity=about,
                detail=f"The commit{what} by {format_member_at(sender)}{generation} was refused: {event.error.name}"
                f"{_format_group_state(event, view, first, owner)}.",
                members=[sender] if owner is None else [sender, owner.name],
                partitions=[refused[:2] for refused in event.offsets],
                before=None if first is None else _build_written_offset(first.committed, owner, view),
                after=None
                if first is None
                else WrittenOffset(
                    offset=first.offset,
                    member_id=sender.member_id,
                    client_id=sender.client_id,
                    generation_id=event.generation_id,
                ),
                subject=sender.member_id,
            )
        )


def _find_owner(view: GroupView, place: PartitionKey) -> MemberView | None:
    return next((member for member in view.members if place in (list_member_partitions(member) or ())), None)


def _format_group_state(
    event: CommitRefused, view: GroupView | None, first: RefusedOffset | None, owner: MemberView | None
) -> str:
    if not event.state:
        return ", the group does not exist"
    text = f"; the group is {event.state}"
    text += "" if view is None else f" in generation {view.generation_id}"
    if first is None:
        return text
    had = "nothing is committed" if first.committed is None else f"{first.committed} is committed"
    return text + (
        f", where {had}"
        if owner is None
        else f", {format_member(owner.name)} owns the partition, where {had}"
    )


def _build_written_offset(
    offset: int | None, owner: MemberView | None, view: GroupView | None
) -> WrittenOffset:
    return WrittenOffset(
        offset=offset,
        member_id=None if owner is None else owner.name.member_id,
        client_id=None if owner is None else owner.name.client_id,
        generation_id=None if view is None else view.generation_id,
    )
