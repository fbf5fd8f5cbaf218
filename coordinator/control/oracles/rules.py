"""All rules, and who of them hears of what."""

from coordinator.control.oracles.assignment_of_nobody import AssignmentOfNobody
from coordinator.control.oracles.commit_beyond_end import CommitBeyondEnd
from coordinator.control.oracles.commit_went_back import CommitWentBack
from coordinator.control.oracles.commits import Commit
from coordinator.control.oracles.double_owner import DoubleOwner
from coordinator.control.oracles.flapping import Flapping
from coordinator.control.oracles.oracle import Hear, Oracle
from coordinator.control.oracles.orphan_partition import OrphanPartition
from coordinator.control.oracles.starved_heartbeat import StarvedHeartbeat
from coordinator.control.oracles.stuck_rebalance import StuckRebalance
from coordinator.control.oracles.topic_ages import TopicAges
from coordinator.control.oracles.violation import OracleName
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.zombie_commit import ZombieCommit
from coordinator.group.events import Event


class Rules:
    """One of each."""

    def __init__(self, watch: Watch) -> None:
        self.ages = TopicAges(watch.now_ms)
        self._went_back, self._beyond_end = CommitWentBack(watch), CommitBeyondEnd(watch)
        oracles: list[Oracle] = [
            DoubleOwner(watch),
            OrphanPartition(watch, self.ages),
            self._went_back,
            ZombieCommit(watch),
            StuckRebalance(watch),
            StarvedHeartbeat(watch),
            Flapping(watch),
            self._beyond_end,
            AssignmentOfNobody(watch),
        ]
        self.by_name = {oracle.name: oracle for oracle in oracles}
        self._hears: dict[type[Event], list[Hear]] = {}
        for oracle in oracles:
            for event, hear in oracle.hears.items():
                self._hears.setdefault(event, []).append(hear)

    def happened(self, event: Event) -> None:
        """Something happened in a group."""
        for hear in self._hears.get(type(event), ()):
            hear(event)

    def committed(self, commit: Commit) -> None:
        """An offset was stored."""
        self._went_back.committed(commit)
        self._beyond_end.committed(commit)

    def look(self, oracle: OracleName, group_id: str) -> None:
        """The time has come for which an oracle had asked."""
        self.by_name[oracle].look(group_id)
