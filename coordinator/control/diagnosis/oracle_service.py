"""The oracles of a server, which run from the start, and their context.

Scheduled checks are grouped by the second. Long checks run one after the other in a task, with checkpoints. When a
clock is moved, scheduled checks of its groups run next. Commits are checked only with `oracle.commits`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.diagnosis.assignment_oracles import (
    AssignmentToUnknownMember,
    DoubleOwner,
    OrphanPartition,
    TopicAges,
)
from coordinator.control.diagnosis.commit_observer import CommitFeed, StoredCommit
from coordinator.control.diagnosis.commit_oracles import CommitBeyondEnd, CommitWentBack, ZombieCommit
from coordinator.control.diagnosis.oracle import (
    CHECK_PERIOD_MS,
    EventHandler,
    LongCheck,
    Oracle,
    OracleConfig,
    OracleContext,
)
from coordinator.control.diagnosis.rebalance_oracles import Flapping, StuckRebalance
from coordinator.control.diagnosis.recent_commits import RecentCommits
from coordinator.control.diagnosis.starved_heartbeat import StarvedHeartbeat
from coordinator.control.diagnosis.violation import OracleFinding, OracleName
from coordinator.control.diagnosis.violation_log import ViolationListener, ViolationLog
from coordinator.control.operator_actions import ActionLog, OperatorAction
from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.outcome import Now
from coordinator.core.time_budget import TimeBudget
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage
from coordinator.runtime.timers import ProcessClock, Timers

_LOG: Final = logging.getLogger("Oracles")
_CLOCK_ACTION: Final = "clock"


class OracleService:
    """Checks the events and the stored commits of a server."""

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        group_now: Callable[[str], Now],
        commits: CommitFeed | None = None,
    ) -> None:
        """Create the oracles of an open server.

        Args:
            services: The open parts of the server.
            actions: The actions of operators.
            group_now: Returns the time of a group.
            commits: A feed that its creator connects with `on_commit`; None for a new feed, if `oracle.commits` is
                on.
        """
        self._services = services
        self.recent_commits = RecentCommits()
        self.violations = ViolationLog(services.metrics, services.line_limit)
        self.context = context = ServerOracleContext(services, self.violations, group_now)
        self._oracles = context.oracles = OracleSet(context)
        services.topic_images.listeners.append(self._oracles.topic_ages.on_topics_changed)
        services.group_events.subscribe(EventRank.ORACLES, self._on_event)
        services.group_clock.on_moved.append(context.reschedule_checks)
        actions.listeners.append(self._on_action)
        if context.config.oracle_commits and commits is None:
            CommitFeed(services.runtime).subscribe(self.on_commit)

    @property
    def listeners(self) -> list[ViolationListener]:
        """The listeners that are called with each violation or notice."""
        return self.violations.listeners

    def close(self) -> None:
        """Stop the oracles; a second call has no effect."""
        if self._on_event in self._services.group_events.subscribers:
            self._services.group_events.unsubscribe(self._on_event)
        self.context.close()

    def on_commit(self, commit: StoredCommit) -> None:
        """Record a stored commit for reports, and let the oracles check it."""
        self.recent_commits.add(commit)
        try:
            self._oracles.on_commit(commit)
        except Exception as problem:  # noqa: BLE001 - the commit is stored, whatever is thought of it
            _LOG.error("The commit oracles failed for group %s", printable(commit.group_id), exc_info=problem)

    def _on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        self._oracles.on_event(event)

    def _on_action(self, action: OperatorAction) -> None:
        if action.kind == _CLOCK_ACTION:
            self.context.reschedule_checks(action.group_id)


class OracleSet:
    """One instance of each oracle."""

    def __init__(self, context: OracleContext) -> None:
        self.topic_ages = TopicAges(context.now_ms)
        self._went_back, self._beyond_end = CommitWentBack(context), CommitBeyondEnd(context)
        oracles: list[Oracle] = [
            DoubleOwner(context),
            OrphanPartition(context, self.topic_ages),
            self._went_back,
            ZombieCommit(context),
            StuckRebalance(context),
            StarvedHeartbeat(context),
            Flapping(context),
            self._beyond_end,
            AssignmentToUnknownMember(context),
        ]
        self.by_name = {oracle.name: oracle for oracle in oracles}
        self._handlers: dict[type[GroupEvent], list[EventHandler]] = {}
        for oracle in oracles:
            for event, handler in oracle.handlers.items():
                self._handlers.setdefault(event, []).append(handler)

    def on_event(self, event: GroupEvent) -> None:
        """Pass an event of a group to the oracles that handle its class."""
        for handler in self._handlers.get(type(event), ()):
            handler(event)

    def on_commit(self, commit: StoredCommit) -> None:
        """Notify the oracles of a stored offset."""
        self._went_back.on_commit(commit)
        self._beyond_end.on_commit(commit)

    def check_group(self, oracle: OracleName, group_id: str) -> None:
        """Run a scheduled check of an oracle."""
        self.by_name[oracle].check_group(group_id)


class ServerOracleContext:
    """The `OracleContext` of a server. All methods belong to the event loop's thread."""

    def __init__(self, services: Services, violations: ViolationLog, group_now: Callable[[str], Now]) -> None:
        """Create the context of all groups of a server. `group_now` returns the time of a group."""
        self.config = services.settings.config.view(OracleConfig)
        self.group_now = group_now
        self.oracles: OracleSet
        """The oracles that run the scheduled checks."""
        self._services = services
        self._violations = violations
        self._timers = Timers(services.loop, ProcessClock(clock.Arrival()), self._run_check)
        self._due: dict[tuple[OracleName, str], int] = {}
        self._pending_checks: deque[LongCheck] = deque()
        self._check_task: asyncio.Task[None] | None = None
        self._connections: tuple[int, set[int]] = (-CHECK_PERIOD_MS, set())
        """The open connections with the time in milliseconds at which they were read. Checks of many groups share
        them."""

    # Data

    def now_ms(self) -> int:
        return clock.monotonic_ms()

    def find_group(self, group_id: str) -> GroupView | None:
        machine = self._services.runtime.find_partition(group_id).machine
        return None if machine is None else machine.view_group(group_id, self.group_now(group_id))

    @property
    def topics(self) -> TopicsImage:
        return self._services.topic_images.get_current()

    def find_log_end(self, topic: str, partition: int) -> int | None:
        hosted = self._services.data_plane.find_local_partition(topic, partition)
        return None if hosted is None or hosted.log is None else hosted.log.log_end_offset

    def find_open_connections(self) -> set[int]:
        at_ms, numbers = self._connections
        if self.now_ms() - at_ms >= CHECK_PERIOD_MS:
            numbers = {connection.client.connection_id for connection in self._services.connections.open}
            self._connections = self.now_ms(), numbers
        return numbers

    # Findings

    def report_finding(self, finding: OracleFinding) -> None:
        self._violations.add_finding(finding)

    def report_repeated(self, key: Hashable) -> bool:
        return self._violations.add_repetition(key)

    # Checks

    def schedule_check(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        due_ms = self.now_ms() + max(0, delay_ms)
        due_ms += -due_ms % CHECK_PERIOD_MS
        if due_ms < self._due.get((oracle, group_id), due_ms + 1):
            self._due[oracle, group_id] = due_ms
            self._timers.set((oracle, group_id), due_ms)

    def cancel_check(self, oracle: OracleName, group_id: str) -> None:
        if self._due.pop((oracle, group_id), None) is not None:
            self._timers.cancel((oracle, group_id))

    def reschedule_checks(self, group_id: str | None = None) -> None:
        """Repeat scheduled checks after a change of a clock, of one group or of all groups."""
        for oracle, due_group_id in list(self._due):
            if group_id in (None, due_group_id):
                self.schedule_check(oracle, due_group_id, 0)

    def run_long_check(self, check: LongCheck) -> None:
        self._pending_checks.append(check)
        if self._check_task is None:
            self._check_task = self._services.loop.create_task(self._run_pending_checks())

    def close(self) -> None:
        """Cancel all checks, including running ones."""
        self._timers.close()
        self._due.clear()
        self._pending_checks.clear()
        if self._check_task is not None:
            self._check_task.cancel()

    def _run_check(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        oracle, group_id = key
        self._due.pop((oracle, group_id), None)
        try:
            self.oracles.check_group(oracle, group_id)
        except Exception as problem:  # noqa: BLE001 - the other groups are looked at all the same
            _LOG.error("Oracle %s failed for group %s", oracle, printable(group_id), exc_info=problem)

    async def _run_pending_checks(self) -> None:
        budget = TimeBudget(self._services.run_queue)
        while self._pending_checks:
            check = self._pending_checks.popleft()
            try:
                await check(budget)
            except Exception as problem:  # noqa: BLE001 - the other checks run all the same
                _LOG.error("A periodic check of an oracle failed", exc_info=problem)
            await budget.checkpoint()
        self._check_task = None
