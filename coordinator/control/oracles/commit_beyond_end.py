"""An offset is committed that lies behind the end of the partition: whoever goes on from there reads nothing, or
begins anew where auto.offset.reset says."""

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


class CommitBeyondEnd:
    """Hears of each offset that is stored."""

    name: Final = OracleName.COMMIT_BEYOND_END
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.hears: dict[type[Event], Hear] = {}

    def look(self, group_id: str) -> None:
        """It never asks for one."""

    def committed(self, commit: Commit) -> None:
        """An offset was stored."""
        end = self._watch.log_end(commit.topic, commit.partition)
        if end is None or commit.offset <= end:
            return
        place = commit.topic, commit.partition
        about = place, commit.writer.member_id, commit.writer.client_id
        if self._watch.found_again((self.name, commit.group_id, about)):
            return
        is_member = commit.generation_id >= 0
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=commit.group_id,
                generation_id=commit.generation_id if is_member else None,
                about=about,
                detail=f"{who_at(commit.writer)} committed {commit.offset} of {printable(name_of(place))}, "
                f"which ends at {end}.",
                members=[commit.writer] if is_member else [],
                places=[place],
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
