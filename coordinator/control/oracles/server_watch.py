"""A server, as the oracles see it: see `watch.py`."""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final

from coordinator import clock
from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.rules import Rules
from coordinator.control.oracles.violation import OracleName
from coordinator.control.oracles.violations import Violations
from coordinator.control.oracles.watch import SAMPLE_MS, OracleConfig
from coordinator.engine.group_clock import ProcessTime
from coordinator.engine.timers import Timers
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Oracles")

SLICE_NS: Final = 2_000_000
"""How long judging goes on before others get their turn."""
_DONE: Final = object()


class ServerWatch:
    """All methods belong to the event loop's thread."""

    def __init__(self, server: Server, violations: Violations, now_of: Callable[[str], Now]) -> None:
        """In: the time of a group."""
        self.config = server.settings.config.view(OracleConfig)
        self.group_now = now_of
        """See `Watch`."""
        self.rules: Rules
        """Who looks at a group when the time for that has come."""
        self._server = server
        self._violations = violations
        self._timers = Timers(server.loop, ProcessTime(clock.Arrival()), self._look)
        self._due: dict[tuple[OracleName, str], int] = {}
        self._judging: deque[Iterator[None]] = deque()
        self._is_due = False
        self._connections: tuple[int, set[int]] = (-SAMPLE_MS, set())
        """The open ones, as they were at a time: many groups may ask for them at once."""

    # What is

    def now_ms(self) -> int:
        """See `Watch`."""
        return clock.monotonic_ms()

    def view(self, group_id: str) -> GroupView | None:
        """See `Watch`."""
        machine = self._server.runtime.partition_of(group_id).machine
        return None if machine is None else machine.view(group_id, self.group_now(group_id))

    @property
    def topics(self) -> TopicsImage:
        """See `Watch`."""
        return self._server.topic_images.current()

    def log_end(self, topic: str, partition: int) -> int | None:
        """See `Watch`."""
        hosted = self._server.data_plane.here(topic, partition)
        return None if hosted is None or hosted.log is None else hosted.log.log_end_offset

    def open_connections(self) -> set[int]:
        """See `Watch`."""
        at_ms, numbers = self._connections
        if self.now_ms() - at_ms >= SAMPLE_MS:
            numbers = {connection.connection_id for connection in self._server.connections.open}
            self._connections = self.now_ms(), numbers
        return numbers

    # What was found

    def found(self, finding: Finding) -> None:
        """See `Watch`."""
        self._violations.found(finding)

    def found_again(self, key: Hashable) -> bool:
        """See `Watch`."""
        return self._violations.found_again(key)

    # What comes later

    def look_in(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        """See `Watch`."""
        due_ms = self.now_ms() + max(0, delay_ms)
        due_ms += -due_ms % SAMPLE_MS
        if due_ms < self._due.get((oracle, group_id), due_ms + 1):
            self._due[oracle, group_id] = due_ms
            self._timers.set((oracle, group_id), due_ms)

    def look_no_more(self, oracle: OracleName, group_id: str) -> None:
        """See `Watch`."""
        if self._due.pop((oracle, group_id), None) is not None:
            self._timers.cancel((oracle, group_id))

    def look_anew(self, group_id: str | None = None) -> None:
        """A clock was moved: what was to be looked at later is looked at next. None: in all groups."""
        for oracle, watched in list(self._due):
            if group_id in (None, watched):
                self.look_in(oracle, watched, 0)

    def judge(self, steps: Iterator[None]) -> None:
        """See `Watch`."""
        self._judging.append(steps)
        self._go_on_soon()

    def close(self) -> None:
        """Looks at nothing any more."""
        self._timers.close()
        self._due.clear()
        self._judging.clear()

    def _look(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        oracle, group_id = key
        self._due.pop((oracle, group_id), None)
        try:
            self.rules.look(oracle, group_id)
        except Exception as problem:  # noqa: BLE001 - the other groups are looked at all the same
            _LOG.error("Oracle %s failed at group %s", oracle, printable(group_id), exc_info=problem)

    def _go_on_soon(self) -> None:
        if self._judging and not self._is_due:
            self._is_due = True
            self._server.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        end_ns = clock.monotonic_ns() + SLICE_NS
        try:
            while self._judging and clock.monotonic_ns() < end_ns:
                steps = self._judging.popleft()
                if next(steps, _DONE) is not _DONE:
                    self._judging.append(steps)
        finally:
            self._go_on_soon()
