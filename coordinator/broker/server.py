"""The server: serves with open parts, runs its periodic jobs, and closes. `composition_root.py` opens the parts.

Listeners open before the groups are read; early clients get COORDINATOR_LOAD_IN_PROGRESS.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from coordinator.broker.services import Services
from coordinator.config.in_process_brokers import create_broker_listeners, find_port_step
from coordinator.config.listeners import Listener
from coordinator.core.daemon_log import ADDRESS_PERIOD_MS, OngoingFailures, format_repeats
from coordinator.core.shared_types import LogFlush
from coordinator.core.time_budget import Budget, RunQueue, TimeBudget
from coordinator.network.endpoint import Endpoint
from storage.log import PartitionLog
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition

_LOG = logging.getLogger("KafkaServer")
CLOSE_TIMEOUT_S: Final = 5.0


class ServerExits:
    """How the open parts of a server end: `close` in the reverse order of their creation, or `abandon`."""

    def __init__(self) -> None:
        self._exits: list[tuple[Callable[[], Awaitable[None] | None], Callable[[], None]]] = []

    def push(
        self,
        *,
        close: Callable[[], Awaitable[None] | None] = lambda: None,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        """Register the ends of a part: `close` writes and waits, `abandon` ends it as a crash does."""
        self._exits.append((close, abandon))

    async def close(self) -> None:
        """Close all parts. If one fails, abandon it and the parts that are left, and raise its error."""
        while self._exits:
            close, abandon = self._exits.pop()
            try:
                awaited = close()
                if awaited is not None:
                    await awaited
            except BaseException:
                self.push(abandon=abandon)
                self.abandon()
                raise

    def abandon(self) -> None:
        """Abandon all parts, also after an error of one of them."""
        with ExitStack() as stack:
            for _, abandon in self._exits:
                stack.callback(abandon)
            self._exits.clear()


class Server(Services, frozen=True, eq=False, kw_only=True, weakref=True):
    """One daemon, with open parts. Call `listen` and at last `close`."""

    exits: ServerExits
    periodic_jobs: "PeriodicJobs"

    async def listen(self, bound: Mapping[str, Sequence[socket.socket]] = MappingProxyType({})) -> None:
        """Open the listeners and start to load the groups.

        Args:
            bound: Sockets of a single broker that are already bound, by listener name. The server takes ownership
                of them.

        Raises:
            StartFailed: A listener could not be opened.
        """
        await self._bind_listeners(bound)
        self.brokers.open()
        self._start_periodic_jobs()
        if self.settings.config.log_cleaner_enable:
            self.cleaner.start()
        self.exits.push(close=self.membership.leave)  # also after a start that failed half-way
        self.membership.start()

    async def _bind_listeners(self, bound: Mapping[str, Sequence[socket.socket]]) -> None:
        configured = self.settings.listeners
        step = find_port_step(configured, len(self.brokers.listeners))
        for number, (node_id, listeners) in enumerate(self.brokers.listeners.items()):
            await listeners.bind_listeners(
                self.settings,
                create_broker_listeners(configured, number, step),
                partial(self._create_endpoint, node_id),
                self.connections,
                self.security,
                self.metrics.authentications,
                bound,
            )
            for endpoint in listeners.endpoints:
                port = endpoint.fallback_node.port
                self.membership.on_listener_bound(node_id, endpoint.listener.name, port)

    def _create_endpoint(self, node_id: int, listener: Listener) -> Endpoint:
        return Endpoint(
            listener,
            self.connections,
            self.write_batcher,
            self.run_queue,
            self.arrival,
            node_id,
            self.routes_by_broker[node_id],
        )

    def on_coordinators_loaded(self) -> None:
        """Handle the end of the first loads of the coordinator partitions."""
        if failed := self.engine.list_failed_partitions():
            _LOG.error("%d coordinator partitions could not be read", len(failed))
        elif not any(
            (
                self.data_plane.list_failed_partitions(),
                self.data_plane.catalogue.undeleted_partitions,
                self.engine.list_unopened_partitions(),
            )
        ):
            self.directory.drop_deleted_logs()
        if any(log.awaits_recovery_point for log in self.logs().values()):
            self.checkpoints.write_due_checkpoints(self.logs())
        self.transactions.on_groups_read()
        self.membership.on_groups_loaded(self.ready)

    # Periodic jobs

    def _start_periodic_jobs(self) -> None:
        config = self.settings.config
        if config.connections_max_idle_ms > 0:
            self.periodic_jobs.run_every(
                max(100, config.connections_max_idle_ms // 4), self.connections.close_idle
            )
        if self.connections.memory.is_bounded:
            stall_ms = self.connections.limits.queued_max_request_stall_ms
            self.periodic_jobs.run_every(stall_ms, self.connections.memory.abort_stalled)
        self.periodic_jobs.run_every(ADDRESS_PERIOD_MS, self.connections.line_limit.log_summary)
        if config.log_flush_offset_checkpoint_interval_ms > 0:
            self.periodic_jobs.run_every(
                config.log_flush_offset_checkpoint_interval_ms, self._write_checkpoints
            )
        self.periodic_jobs.run_in_slices_every(
            config.log_retention_check_interval_ms, self.topics.apply_retention
        )
        self.periodic_jobs.run_every(config.log_retention_check_interval_ms, self.engine.expire_producers)
        if config.log_flush == LogFlush.INTERVAL:
            self.periodic_jobs.run_every(max(1, config.log_flush_interval_ms), self._sync_all)

    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return every open log."""
        return {**self.data_plane.list_logs(), **self.engine.list_open_logs()}

    def _write_checkpoints(self) -> None:
        logs = self.logs()
        self.checkpoints.write_due_checkpoints(logs)
        self.flusher.settle_logs(log for log in logs.values() if log.journal is not None and log.is_dirty)
        for states in self.engine.state_keepers:
            states.write_due()

    def _sync_all(self) -> None:
        self.engine.sync_dirty()
        self.topics.sync_dirty_logs()

    # Closing

    async def close(self) -> None:
        """Stop accepting, answer pending requests, write all state, and close. Raises the disk's errors."""
        if not self.closing.is_set():
            self.closing.set()
            await self.exits.close()

    def abandon(self) -> None:
        """Stop at once without writing anything, as in a crash."""
        self.exits.abandon()

    async def drain(self) -> None:
        """Answer the pending requests, make their records durable, write all states, and close the connections."""
        await self.engine.shut_down()
        self.transactions.close()
        self.topics.complete_all_fetches()
        self._sync_all()
        await self.flusher.drain(self._find_awaited_logs())
        await self.checkpoints.stop()
        for states in self.engine.state_keepers:
            await states.stop()
        taken = [(states, states.capture_final_states()) for states in self.engine.state_keepers]
        self.engine.fail_waiters()
        # One iteration, in which the write batcher writes the last answers.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.connections.close_all(CLOSE_TIMEOUT_S)
        for states, last in taken:
            await states.write_final_states(last)
        await self.flusher.drain(self._find_awaited_logs())

    def _find_awaited_logs(self) -> set[PartitionLog]:
        """Return the logs that a stop waits for: the open ones, and the ones with waiting Produce requests."""
        return {*self.logs().values(), *self.topics.produce_purgatory.awaited_logs}

    def close_directory(self) -> None:
        """Close all logs and the data directory. Raises the errors of the disk."""
        failed = [*self.data_plane.list_failed_partitions(), *self.data_plane.catalogue.undeleted_partitions]
        failed += self.engine.list_failed_partitions()
        failed += self.membership.list_unclosed_partitions(self.engine)
        self.directory.close(self.logs(), failed)


class PeriodicJobs:
    """Work that repeats at intervals. A disk failure is logged, and the next interval repeats the work."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run_queue: RunQueue, failures: OngoingFailures
    ) -> None:
        self._loop = loop
        self._run_queue = run_queue
        self._failures = failures
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}

    def run_every(self, interval_ms: int, work: Callable[[], None]) -> None:
        """Call a function after each interval."""

        def run() -> None:
            self._timers[work] = self._loop.call_later(interval_ms / 1000, run)
            try:
                work()
            except (OSError, StorageError) as error:
                self._report_failure(error)

        self._timers[work] = self._loop.call_later(interval_ms / 1000, run)

    def run_in_slices_every(
        self, interval_ms: int, work: Callable[[Budget], Coroutine[Any, Any, None]]
    ) -> None:
        """Run a coroutine after each interval, in slices of time. Two runs of it never overlap."""

        def run() -> None:
            self._timers[work] = self._loop.call_later(interval_ms / 1000, run)
            if work not in self._tasks:
                task = self._tasks[work] = self._loop.create_task(work(TimeBudget(self._run_queue)))
                task.add_done_callback(partial(self._on_task_done, work))

        self._timers[work] = self._loop.call_later(interval_ms / 1000, run)

    def _on_task_done(self, work: object, task: "asyncio.Task[None]") -> None:
        del self._tasks[work]
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, OSError | StorageError):
            self._report_failure(problem)
        elif problem is not None:
            _LOG.error("Upkeep failed", exc_info=problem)

    def _report_failure(self, error: OSError | StorageError) -> None:
        count = self._failures.count_failure(error)
        if count:
            _LOG.error(
                "A periodic task failed, will retry: %s%s", format_error_reason(error), format_repeats(count)
            )

    def stop(self) -> None:
        """Begin no more work, and cancel the coroutines at their next checkpoint."""
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks.values():
            task.cancel()
