"""The oracles of a server, put together. They watch from the start; nobody has to ask for it."""

import logging
from functools import partial
from typing import Final

from coordinator.control.acts import Act, Acts
from coordinator.control.oracles.assignment_of_nobody import AssignmentOfNobody
from coordinator.control.oracles.commit_beyond_end import CommitBeyondEnd
from coordinator.control.oracles.commit_went_back import CommitWentBack
from coordinator.control.oracles.commits import Commit, WatchedShard
from coordinator.control.oracles.double_owner import DoubleOwner
from coordinator.control.oracles.flapping import Flapping
from coordinator.control.oracles.oracle import Hear, Oracle
from coordinator.control.oracles.orphan_partition import OrphanPartition
from coordinator.control.oracles.starved_heartbeat import StarvedHeartbeat
from coordinator.control.oracles.stuck_rebalance import StuckRebalance
from coordinator.control.oracles.topic_ages import TopicAges
from coordinator.control.oracles.violations import Listener, Violations
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.zombie_commit import ZombieCommit
from coordinator.group.events import Event
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Oracles")
_CLOCK: Final = "clock"


class Oracles:
    """Made when a server is open and has not read its groups yet."""

    def __init__(self, server: Server, acts: Acts) -> None:
        self.violations = Violations(server.metrics, server.line_limit)
        self.watch = watch = Watch(server, self.violations)
        ages = TopicAges()
        server.topic_listeners.append(ages.changed)
        self._went_back, self._beyond_end = CommitWentBack(watch), CommitBeyondEnd(watch)
        oracles: list[Oracle] = [
            DoubleOwner(watch),
            OrphanPartition(watch, ages),
            self._went_back,
            ZombieCommit(watch),
            StuckRebalance(watch),
            StarvedHeartbeat(watch),
            Flapping(watch),
            self._beyond_end,
            AssignmentOfNobody(watch),
        ]
        self._hears: dict[type[Event], list[Hear]] = {}
        for oracle in oracles:
            watch.looks[oracle.name] = oracle.look
            for event, hear in oracle.hears.items():
                self._hears.setdefault(event, []).append(hear)
        server.group_events.listeners.append(self._happened)
        server.group_clock.on_moved.append(watch.look_anew)
        acts.listeners.append(self._acted)
        if watch.config.oracle_commits:
            server.new_shard = partial(WatchedShard, self._committed)

    @property
    def listeners(self) -> list[Listener]:
        """Who is told of each violation."""
        return self.violations.listeners

    def close(self) -> None:
        """Watches no more."""
        self.watch.close()

    def _happened(self, partition: int, event: Event, number: int, now: Now) -> None:
        for hear in self._hears.get(type(event), ()):
            hear(event)

    def _committed(self, commit: Commit) -> None:
        try:
            self._went_back.committed(commit)
            self._beyond_end.committed(commit)
        except Exception as problem:  # noqa: BLE001 - the commit is stored, whatever is thought of it
            _LOG.error(
                "The oracles of commits failed at group %s", printable(commit.group_id), exc_info=problem
            )

    def _acted(self, act: Act) -> None:
        if act.kind == _CLOCK:
            self.watch.look_anew(act.group_id)
