"""A member's commit lowers an offset: what was processed is processed again, perhaps because an old owner wrote
over the progress of a new one. Who sets the offsets of an empty group from outside is no member."""

from collections.abc import Hashable
from typing import Final

from coordinator.control.oracles.commits import Commit
from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.partitions import name_of
from coordinator.control.oracles.violation import OracleName, Severity, WrittenOffset
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who_at
from coordinator.group.events import Event
from coordinator.net.peer import printable

MOST_WRITERS: Final = 50_000
"""Partitions of which it is remembered who wrote their offset last."""

_Place = tuple[str, str, int]


class CommitWentBack:
    """Hears of each offset that is stored."""

    name: Final = OracleName.COMMIT_WENT_BACK
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.hears: dict[type[Event], Hear] = {}
        self._last: dict[_Place, Commit] = {}
        """The newest last."""

    def look(self, group_id: str) -> None:
        """It never asks for one."""

    def committed(self, commit: Commit) -> None:
        """An offset was stored."""
        place = commit.group_id, commit.topic, commit.partition
        last = self._last.pop(place, None)
        self._last[place] = commit
        if len(self._last) > MOST_WRITERS:
            del self._last[next(iter(self._last))]
        if commit.before is None or commit.offset >= commit.before or commit.generation_id < 0:
            return
        about = commit.topic, commit.partition, commit.writer.member_id
        if self._watch.found_again((self.name, commit.group_id, about)):
            return
        # Somebody else may have written what is not remembered: a process before this one, or nobody any more.
        before = last if last is not None and last.offset == commit.before else None
        self._found(commit, commit.before, before, about)

    def _found(self, commit: Commit, offset: int, before: Commit | None, about: Hashable) -> None:
        partition = printable(name_of((commit.topic, commit.partition)))
        had = f"{offset} was committed"
        if before is not None:
            had += f" by {who_at(before.writer)}"
            had += (
                f" in generation {before.generation_id}"
                if before.generation_id >= 0
                else " from outside of the group"
            )
        is_same = before is None or before.writer.member_id == commit.writer.member_id
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=commit.group_id,
                generation_id=commit.generation_id,
                about=about,
                detail=f"{who_at(commit.writer)} set {partition} back to {commit.offset} in generation "
                f"{commit.generation_id}, where {had}.",
                members=[commit.writer] if before is None or is_same else [commit.writer, before.writer],
                places=[(commit.topic, commit.partition)],
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
