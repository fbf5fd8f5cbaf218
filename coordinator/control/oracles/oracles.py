"""The oracles of a server. They watch from the start; nobody has to ask for it."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from coordinator.control.acts import Act, Acts
from coordinator.control.oracles.commits import Commit, WatchedShard
from coordinator.control.oracles.rules import Rules
from coordinator.control.oracles.server_watch import ServerWatch
from coordinator.control.oracles.violations import Listener, Violations
from coordinator.group.events import Event
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Oracles")
_CLOCK: Final = "clock"


class Oracles:
    """Made when a server is open and has not read its groups yet."""

    def __init__(self, server: Server, acts: Acts, now_of: Callable[[str], Now]) -> None:
        """In: the time of a group."""
        self._server = server
        self.violations = Violations(server.metrics, server.line_limit)
        self.watch = watch = ServerWatch(server, self.violations, now_of)
        self._rules = watch.rules = Rules(watch)
        server.topic_listeners.append(self._rules.ages.changed)
        server.group_events.listeners.append(self._happened)
        server.group_clock.on_moved.append(watch.look_anew)
        acts.listeners.append(self._acted)
        if watch.config.oracle_commits:
            server.offsets_topic.new_shard = partial(WatchedShard, self.committed)

    @property
    def listeners(self) -> list[Listener]:
        """Who is told of each violation."""
        return self.violations.listeners

    def close(self) -> None:
        """Watches no more; a second time changes nothing."""
        if self._happened in self._server.group_events.listeners:
            self._server.group_events.listeners.remove(self._happened)
        self.watch.close()

    def committed(self, commit: Commit) -> None:
        """Check a commit that was stored."""
        try:
            self._rules.committed(commit)
        except Exception as problem:  # noqa: BLE001 - the commit is stored, whatever is thought of it
            _LOG.error(
                "The oracles of commits failed at group %s", printable(commit.group_id), exc_info=problem
            )

    def _happened(self, partition: int, event: Event, number: int, now: Now) -> None:
        self._rules.happened(event)

    def _acted(self, act: Act) -> None:
        if act.kind == _CLOCK:
            self.watch.look_anew(act.group_id)
