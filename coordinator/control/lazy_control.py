"""The control plane, created at its first use: an event of a group, or a request over HTTP.

A daemon that starts for a single test should not spend time on a control plane without users. A thread imports its
modules. Events that happen meanwhile are buffered and passed on in their order.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupEvent, GroupLoaded

if TYPE_CHECKING:
    from coordinator.control.daemon_control_plane import DaemonControlPlane
    from coordinator.control.diagnosis.commit_observer import CommitFeed

_LOG: Final = logging.getLogger("Control")
MAX_PENDING: Final = 20_000
"""The maximum number of events to buffer until the control plane exists. The oldest ones beyond it are
dropped."""


class LazyControlPlane:
    """The lazily created control plane of a server that is open and does not listen yet, so that it gets every
    event. All methods belong to the event loop's thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pending_events: deque[tuple[int, GroupEvent, int, Now]] = deque(maxlen=MAX_PENDING)
        self._control: DaemonControlPlane | None = None
        self._creation: asyncio.Task[None] | None = None
        self.created = asyncio.Event()
        """Set when the control plane exists."""
        services.group_events.subscribe(EventRank.BUFFER, self._on_event)
        config = services.settings.config
        self._commits = _create_commit_feed(services) if config.oracle_commits else None
        if config.ledger_file:
            # The ledger's file must contain every rebalance.
            self.get_or_create()

    def get_or_create(self) -> "DaemonControlPlane":
        """Return the control plane, and create it if necessary."""
        if self._control is None:
            from coordinator.control.daemon_control_plane import DaemonControlPlane

            self._services.group_events.unsubscribe(self._on_event)
            self._control = DaemonControlPlane(self._services, self._commits)
            for pending in self._pending_events:
                self._services.group_events.publish(*pending)
            self._pending_events.clear()
            if self._commits is not None:
                self._commits.subscribe(self._control.oracles.on_commit)
            self.created.set()
        return self._control

    def _on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        self._pending_events.append((partition, event, number, now))
        # Groups from before the start do not need a control plane until a client uses them.
        if self._creation is None and type(event) is not GroupLoaded:
            self._creation = self._services.loop.create_task(self._create_in_background())

    async def _create_in_background(self) -> None:
        try:
            await self._services.loop.run_in_executor(None, _import_control)
            self.get_or_create()
        except Exception as problem:  # noqa: BLE001 - the coordinator runs without its control plane
            _LOG.error("Failed to create the control plane", exc_info=problem)

    def close(self) -> None:
        """Answer all waits and release all held requests."""
        if self._creation is not None:
            self._creation.cancel()
        if self._control is not None:
            self._control.close()

    async def close_namespaces(self) -> None:
        """Stop the namespaces before the server stops."""
        if self._control is not None:
            await self._control.namespaces.close()

    async def finish(self) -> None:
        """Write the remaining data. The server is closed and produces no more events."""
        if self._control is not None:
            await self._control.finish()


def _create_commit_feed(services: Services) -> "CommitFeed":
    from coordinator.control.diagnosis.commit_observer import CommitFeed

    return CommitFeed(services.runtime)


def _import_control() -> None:
    # After this import, `get_or_create` does not block the event loop.
    from coordinator.control import daemon_control_plane  # noqa: F401
    from coordinator.control.ledger.trace_endpoint import preload_exporter

    preload_exporter()
