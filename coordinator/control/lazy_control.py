"""The control room, made when it is first needed: when something happens in a group, or when somebody asks.

A daemon that is started for each test shall not be longer about it for the sake of rooms in which nobody is
yet: their modules are imported in another thread. What happens until they are there is kept, and told to them
in its order."""

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator.control.oracles.commits import Commit, WatchedShard
from coordinator.group.events import Event, GroupLoaded
from coordinator.machine.outcome import Now
from coordinator.server.server import Server

if TYPE_CHECKING:
    from coordinator.control.control import Control

_LOG: Final = logging.getLogger("Control")
MOST_KEPT: Final = 20_000
"""Events, and commits, until the rooms are there: of more, the first are forgotten."""


class LateControl:
    """Made when a server is open and does not listen yet, so that nothing is missed. All methods belong to
    the event loop's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: deque[tuple[int, Event, int, Now]] = deque(maxlen=MOST_KEPT)
        self._kept_commits: deque[Commit] = deque(maxlen=MOST_KEPT)
        self._control: Control | None = None
        self._making: asyncio.Task[None] | None = None
        self.made = asyncio.Event()
        """Set when it is there."""
        server.group_events.listeners.append(self._happened)
        config = server.settings.config
        if config.oracle_commits:
            # The shards have to be of this class before they read their groups.
            server.offsets_topic.new_shard = partial(WatchedShard, self._committed)
        if config.ledger_file:
            # A file misses nothing.
            self.make()

    def make(self) -> "Control":
        """The control room, at once."""
        if self._control is None:
            from coordinator.control.control import Control

            self._server.group_events.listeners.remove(self._happened)
            self._control = Control(self._server)
            for kept in self._kept:
                self._server.group_events.tell(*kept)
            self._kept.clear()
            for commit in self._kept_commits:
                self._control.oracles.committed(commit)
            self._kept_commits.clear()
            self.made.set()
        return self._control

    def _happened(self, partition: int, event: Event, number: int, now: Now) -> None:
        self._kept.append((partition, event, number, now))
        # Groups that were there before the start are none that somebody works with.
        if self._making is None and type(event) is not GroupLoaded:
            self._making = self._server.loop.create_task(self._make())

    def _committed(self, commit: Commit) -> None:
        if self._control is None:
            self._kept_commits.append(commit)
        else:
            self._control.oracles.committed(commit)

    async def _make(self) -> None:
        try:
            await self._server.loop.run_in_executor(None, _import_control)
            self.make()
        except Exception as problem:  # noqa: BLE001 - the coordinator runs without its control room
            _LOG.error("The control room cannot be made", exc_info=problem)

    def close(self) -> None:
        """Lets go of everything: nobody waits any more, nothing is held."""
        if self._making is not None:
            self._making.cancel()
        if self._control is not None:
            self._control.close()

    async def close_namespaces(self) -> None:
        """Stops the brokers beside the server, before the server stops."""
        if self._control is not None:
            await self._control.namespaces.close()

    async def finish(self) -> None:
        """The server is closed, and nothing happens any more: writes what is to be written."""
        if self._control is not None:
            await self._control.finish()


def _import_control() -> None:
    # Once it is imported, it is there for `make`.
    import coordinator.control.control  # noqa: F401
    from coordinator.control.traces.made import preload

    preload()
