"""Drives the life cycle of the partitions of one internal topic: their loads, delays, trial appends and releases.

`partition_lifecycle.py` has the stages and the events. This module applies the events and does what each stage
requires. Requests of a partition that leaves the service get NOT_COORDINATOR.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol

from coordinator.core import clock
from coordinator.core.daemon_log import format_repeats
from coordinator.core.outcome import Now, Outcome
from coordinator.runtime.coordinator_partition import CoordinatorPartition, EngineContext, LoadedMachine
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_lifecycle import LifecycleEvent, LifecycleStage, PartitionState
from coordinator.runtime.partition_loader import LoadFailed, Opening, PartitionLoad
from coordinator.runtime.partition_logs import BUSY_RETRY_S, LoadSource, PartitionLogs
from coordinator.runtime.state_keeper import StateKeeper
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from storage.storage_errors import LogDamaged, StorageError, format_error_reason

RETRY_S: Final = 1.0
"""Delay in seconds before the next attempt of a load or an append that the disk rejected."""
TRIAL_BYTES: Final = 64 * 1024
"""Size of a trial append in bytes. It exceeds most batches: with less free space, the next commits would fail."""

REMEDY: Final = (
    "Its groups and transactions are out of service. Stop groupd, find the damage with `groupd log verify`, and "
    "repair the log with `groupd log repair`."
)

LoadListener = Callable[[CoordinatorPartition[Any]], None]
"""Takes a partition after its load: it is OWNED, READ_ONLY or FAILED."""


class PartitionService(Protocol):
    """The runtime, as the driver calls it."""

    def on_service_started(self, partition: CoordinatorPartition[Any], outcome: Outcome, now: Now) -> None:
        """Handle a partition that has become OWNED or READ_ONLY, and the first outcome of its machine."""

    def on_service_ended(self, partition: CoordinatorPartition[Any]) -> None:
        """Handle the loss of a partition's machine and its pending records."""


class PartitionDriver(Generic[M]):
    """Drives the partitions of one internal topic. All methods belong to the event loop's thread."""

    def __init__(
        self,
        topic: InternalTopic[M],
        engine_context: EngineContext,
        partitions: Sequence[CoordinatorPartition[M]],
        service: PartitionService,
    ) -> None:
        self.is_shut_down = False
        self.loads: list[tuple[int, int]] = []
        """The records and the duration in nanoseconds of each of the last loads."""
        self.load_listeners: list[LoadListener] = []
        """Called in their order after each load."""
        self.states = StateKeeper(
            engine_context.files, topic.codec, partitions, topic.logger, engine_context.failures
        )
        self._topic = topic
        self._partitions = partitions
        self._engine_context = engine_context
        self._service = service
        self._log = logging.getLogger(topic.logger)
        self._failures = engine_context.failures
        self._logs = PartitionLogs(topic, engine_context.loop)
        self._loads_in_progress: dict[int, int] = {}
        """The attempt of the load in progress, by partition. A released partition has one until it ends."""
        self.served_by_log: dict[PartitionLog, CoordinatorPartition[M]] = {}
        """The partitions that have a machine, by their logs."""

    # The owner's events

    def open_partition(self, partition: CoordinatorPartition[M], epoch: int, delay_s: float = 0) -> None:
        """Load a partition, while the event loop does other work.

        Args:
            partition: A partition that is ABSENT or FAILED. One in service stays as it is.
            epoch: The number of this change of owner. An epoch that is not above the last one is stale and is
                ignored.
            delay_s: Minimum loading time in seconds.
        """
        if self.is_shut_down or not partition.accept_epoch(epoch):
            return
        if partition.stage is LifecycleStage.FAILED:
            self._close_log(partition)
        elif partition.stage is not LifecycleStage.ABSENT:
            return
        partition.apply(LifecycleEvent.OPEN)
        self._schedule_retry(partition, delay_s)

    def release_partition(self, partition: CoordinatorPartition[M], epoch: int, reason: str) -> None:
        """Take a partition out of service for good: waiting requests get NOT_COORDINATOR, the log is closed.

        Args:
            partition: Any partition.
            epoch: The number of this change of owner. An epoch that is not above the last one is stale and is
                ignored.
            reason: Reason for the log line.
        """
        if not partition.accept_epoch(epoch) or partition.stage is LifecycleStage.ABSENT:
            return
        self._log.info("Releasing %s: %s", partition.name, reason)
        self._end_service(partition, LifecycleEvent.RELEASE)
        self._close_log(partition)

    def reload_partition(self, partition: CoordinatorPartition[M]) -> None:
        """Replace the machine of a partition by a new one from the log. A partition without a machine stays
        unchanged.
        """
        if partition.machine is not None:
            self._replace_machine(partition)

    def _replace_machine(self, partition: CoordinatorPartition[M]) -> None:
        stage = partition.stage
        self._end_service(partition, LifecycleEvent.RELOAD)
        if stage in (LifecycleStage.OWNED, LifecycleStage.UNWRITABLE):
            self._start_load(partition)

    # Appends

    def on_append_failed(self, partition: CoordinatorPartition[M], error: Exception) -> None:
        """Reload a partition after a failed append or sync, and then serve only reads until a trial append
        succeeds.
        """
        if count := self._failures.record_failure(str(partition.name), error):
            self._log.error(
                "Unloading %s of %s: %s%s",
                self._topic.contents_label,
                partition.name,
                format_error_reason(error),
                format_repeats(count),
            )
        self._recover_failed_append(partition)

    def _recover_failed_append(self, partition: CoordinatorPartition[M]) -> None:
        was_unwritable = partition.stage is LifecycleStage.UNWRITABLE
        self._end_service(partition, LifecycleEvent.APPEND_FAILED)
        # The first outcome of an unwritable partition has records, and would fail again.
        self._schedule_retry(partition, RETRY_S if was_unwritable else 0)

    def on_append_succeeded(self, partition: CoordinatorPartition[M]) -> None:
        """Record that the disk accepts the appends of a partition again."""
        if partition.stage is LifecycleStage.OWNED:
            partition.record_accepted_append()
            self._failures.record_recovery(str(partition.name))

    def require_write_trials(self) -> None:
        """Make a trial append after the next load of each partition, because the disk may reject appends."""
        for partition in self._partitions:
            partition.require_write_trial()

    def find_write_failure(self) -> str | None:
        """Return the reason why the disk rejects the appends of a partition; None while it accepts all."""
        for partition in self._partitions:
            if partition.state in (PartitionState.READ_ONLY, PartitionState.LOADING):
                for name in (str(partition.name), _format_load(partition)):
                    if name in self._failures:
                        return self._failures.find_reason(name)
        return None

    def _is_writable(self, partition: CoordinatorPartition[M], log: PartitionLog) -> bool:
        """Return whether a loaded partition can append. After one failed append this makes a trial at once. After
        several it returns False, so that the trial follows after a delay: if a trial append fits on the disk and
        commits do not, each trial costs a load."""
        refused = partition.refused_appends
        return not refused or (refused == 1 and self._try_append(partition, log))

    def _try_append(self, partition: CoordinatorPartition[M], log: PartitionLog) -> bool:
        try:
            log.probe_append(TRIAL_BYTES)
        except (StorageError, OSError) as error:
            if count := self._failures.record_failure(str(partition.name), error):
                self._log.error(
                    "Serving only reads of %s until the disk accepts writes: %s%s",
                    partition.name,
                    format_error_reason(error),
                    format_repeats(count),
                )
            return False
        self._failures.record_recovery(str(partition.name))
        return True

    # Delays

    def _schedule_retry(self, partition: CoordinatorPartition[M], delay_s: float) -> None:
        """Start the next load or trial after a delay, unless the partition has changed its stage by then."""
        if delay_s:
            self._engine_context.loop.call_later(delay_s, self._retry, partition, partition.attempt)
        else:
            self._start_load(partition)

    def _retry(self, partition: CoordinatorPartition[M], attempt: int) -> None:
        if partition.attempt != attempt or self.is_shut_down:
            return
        if partition.stage is not LifecycleStage.UNWRITABLE:
            self._start_load(partition)
            return
        try:
            self._retry_append(partition)
        except Exception as problem:  # noqa: BLE001 - the next trial may succeed
            self._log.error("Failed to handle a trial write to %s", partition.name, exc_info=problem)
            if partition.attempt == attempt:
                self._schedule_retry(partition, RETRY_S)

    def _retry_append(self, partition: CoordinatorPartition[M]) -> None:
        log = partition.log
        assert log is not None, partition.name
        if log.failure is not None:
            self.reload_partition(partition)
        elif self._try_append(partition, log):
            partition.apply(LifecycleEvent.WRITABLE)
            now = self._engine_context.group_clock.now()
            self._service.on_service_started(partition, Outcome(), now)
        else:
            self._schedule_retry(partition, RETRY_S)

    # Loads

    def _start_load(self, partition: CoordinatorPartition[M]) -> None:
        if self.is_shut_down:
            return
        is_busy = partition.number in self._loads_in_progress
        source = None if is_busy else self._logs.find_load_source(partition)
        if source is None:
            self._schedule_retry(partition, BUSY_RETRY_S)
            return
        partition.apply(LifecycleEvent.LOAD_DURABLE if source.is_durable_only else LifecycleEvent.LOAD)
        self._enqueue_load(partition, source)

    def _enqueue_load(self, partition: CoordinatorPartition[M], source: LoadSource) -> None:
        load = self._load_durable if source.is_durable_only else partial(self._load, is_new=source.is_new)
        self._loads_in_progress[partition.number] = partition.attempt
        self._engine_context.load_queue.add_log(
            source.open_log, partial(self._run_load, partition, partition.attempt, load)
        )

    def _run_load(
        self,
        partition: CoordinatorPartition[M],
        attempt: int,
        load: Callable[[CoordinatorPartition[M], int, Opening], Iterator[object]],
        opening: Opening,
    ) -> Iterator[object]:
        try:
            yield from load(partition, attempt, opening)
        finally:
            if self._loads_in_progress.get(partition.number) == attempt:
                del self._loads_in_progress[partition.number]

    def _load(
        self, partition: CoordinatorPartition[M], attempt: int, opening: Opening, *, is_new: bool
    ) -> Iterator[object]:
        """Load a whole log, and put its partition into service."""
        started_ns = clock.monotonic_ns()
        try:
            log = opening.result()
            if partition.attempt != attempt:
                if is_new:
                    log.close(clean=False)
                return
            self._take_log(partition, log, is_new=is_new)
            reading = self._create_load(partition, log)
            for step in reading.run_steps():
                yield step
                if partition.attempt != attempt:
                    return
            for warning in reading.warnings:
                self._log.warning("%s", warning)
            self.states.on_loaded(partition, reading.state_end_offset)
            if self.is_shut_down:
                return
            if log.failure is not None:  # a sync has failed during the load
                raise log.failure
            loaded = self._finish_load(partition, reading)
            is_writable = self._is_writable(partition, log)
        except Exception as problem:  # noqa: BLE001 - one invalid partition must not stop the daemon
            if partition.attempt == attempt:
                self._on_load_failed(partition, problem)
            return
        self.served_by_log[log] = partition
        self._start_service(
            partition, LifecycleEvent.LOADED if is_writable else LifecycleEvent.LOADED_UNWRITABLE, loaded
        )
        if partition.stage is LifecycleStage.UNWRITABLE:
            self._schedule_retry(partition, RETRY_S)
        self._notify_load_listeners(partition)
        self._failures.record_recovery(_format_load(partition))
        self._report_load(partition, log, reading.records, clock.monotonic_ns() - started_ns)

    def _take_log(self, partition: CoordinatorPartition[M], log: PartitionLog, *, is_new: bool) -> None:
        """Attach an opened log to its partition. If a machine serves the durable part, its service ends."""
        if partition.stage is LifecycleStage.SERVING_DURABLE:
            self._end_service(partition, LifecycleEvent.REOPENED)
        self._logs.on_opened(partition, log)
        if is_new:
            self._report_recovery(partition, log)

    def _create_load(
        self, partition: CoordinatorPartition[M], log: PartitionLog, end_offset: int | None = None
    ) -> PartitionLoad[M]:
        return PartitionLoad(
            log,
            self._topic.new_machine(partition.number, log.leader_epochs.current),
            self._engine_context.files,
            self._topic.codec,
            end_offset,
            producer_expiration_ms=self._topic.producer_expiration_ms,
        )

    def _finish_load(
        self, partition: CoordinatorPartition[M], reading: PartitionLoad[M], durable_end: int = 0
    ) -> LoadedMachine[M]:
        """Finish the load of the machine. Raises ValueError if its state is inconsistent."""
        now = self._engine_context.group_clock.now()
        intercepted = partition.interceptors.compose(reading.machine)
        outcome = intercepted.on_loaded(now)
        return LoadedMachine(intercepted, reading.machine, reading.producers, durable_end, outcome, now)

    def _notify_load_listeners(self, partition: CoordinatorPartition[M]) -> None:
        for listener in tuple(self.load_listeners):
            listener(partition)

    def _load_durable(
        self, partition: CoordinatorPartition[M], attempt: int, opening: Opening
    ) -> Iterator[object]:
        """Load the durable part of a failed log, and serve it if possible; then reopen the log."""
        if partition.attempt != attempt or self.is_shut_down:
            return
        if opening.exception() is not None:
            partition.apply(LifecycleEvent.LOAD_REFUSED)
            self._schedule_retry(partition, RETRY_S)
            return
        loaded: LoadedMachine[M] | None = None
        try:
            log = opening.result()
            reading = self._create_load(partition, log, log.durable_offset)
            for step in reading.run_steps():
                yield step
                if partition.attempt != attempt or self.is_shut_down:
                    return
            loaded = self._finish_load(partition, reading, log.durable_offset)
        except Exception as problem:  # noqa: BLE001 - the load of the reopened log reports what remains
            self._log.warning(
                "%s is unavailable until its log is opened again: %s",
                partition.name,
                format_error_reason(problem),
            )
        if loaded is None or loaded.outcome.records or loaded.outcome.marker is not None:
            # The durable part has no machine, or one that must write at once, and the log accepts no records.
            partition.apply(LifecycleEvent.DURABLE_UNREADABLE)
        else:
            self._start_service(partition, LifecycleEvent.DURABLE_LOADED, loaded)
        if partition.stage in (LifecycleStage.SERVING_DURABLE, LifecycleStage.LOADING):
            self._enqueue_load(partition, self._logs.reopen(partition))

    def _start_service(
        self, partition: CoordinatorPartition[M], event: LifecycleEvent, loaded: LoadedMachine[M]
    ) -> None:
        """Put a loaded machine into service."""
        partition.apply(event)
        partition.install_machine(loaded)
        attempt = partition.attempt
        try:
            self._service.on_service_started(partition, loaded.outcome, loaded.now)
        except Exception as problem:  # noqa: BLE001 - the other partitions are still loaded
            self._log.error("Failed to put %s into service", partition.name, exc_info=problem)
            if partition.attempt == attempt:
                is_durable = event is LifecycleEvent.DURABLE_LOADED
                # The next load would fail with the same records.
                self._end_service(
                    partition, LifecycleEvent.RELOAD if is_durable else LifecycleEvent.LOAD_FAILED
                )

    def _on_load_failed(self, partition: CoordinatorPartition[M], problem: Exception) -> None:
        """Fail a partition that cannot be loaded, or retry its load after a disk error."""
        if isinstance(problem, StorageError | OSError) and not isinstance(problem, LogDamaged):
            if count := self._failures.record_failure(_format_load(partition), problem):
                self._log.error(
                    "Failed to load metadata from %s: %s; trying again%s",
                    partition.name,
                    format_error_reason(problem),
                    format_repeats(count),
                )
            partition.apply(LifecycleEvent.LOAD_REFUSED)
            self._schedule_retry(partition, RETRY_S)
            return
        self._end_service(partition, LifecycleEvent.LOAD_FAILED)
        if isinstance(problem, LogDamaged | LoadFailed):
            self._log.error("Failed to load metadata from %s: %s. %s", partition.name, problem, REMEDY)
        else:
            self._log.error("Failed to load metadata from %s", partition.name, exc_info=problem)
        self._notify_load_listeners(partition)

    def _report_recovery(self, partition: CoordinatorPartition[M], log: PartitionLog) -> None:
        if log.recovery_report.cut_bytes:
            self._log.warning("%s", log.recovery_report)
        for error in log.recovery_report.postponed_errors:
            partition.require_write_trial()
            count = self._failures.count_failure(error)
            if count:
                self._log.error(
                    "Loading %s without files that can be written later: %s%s",
                    partition.name,
                    format_error_reason(error),
                    format_repeats(count),
                )

    def _report_load(
        self, partition: CoordinatorPartition[M], log: PartitionLog, records: int, duration_ns: int
    ) -> None:
        self.loads = [*self.loads[-99:], (records, duration_ns)]
        if records:
            self._log.info(
                "Finished loading of metadata from %s in %dms. Loaded %d records which total to %d bytes.",
                partition.name,
                duration_ns // 1_000_000,
                records,
                log.size_bytes,
            )

    # End of service

    def _end_service(self, partition: CoordinatorPartition[M], event: LifecycleEvent) -> None:
        """Apply an event after which the partition has no machine, and answer its waiting requests."""
        partition.apply(event)
        assert not partition.is_serving, (partition.name, event)
        if partition.machine is None:
            return
        if partition.log is not None:
            self.served_by_log.pop(partition.log, None)
        try:
            partition.close_machine(ErrorCode.NOT_COORDINATOR)
        except Exception as problem:  # noqa: BLE001 - an inconsistent machine may also fail to unload
            self._log.error("%s could not be unloaded", partition.name, exc_info=problem)
            partition.close_machine(ErrorCode.NOT_COORDINATOR)
        self._service.on_service_ended(partition)

    def _close_log(self, partition: CoordinatorPartition[M]) -> None:
        partition.missed_notifications.clear()
        self._logs.release(partition)

    def stop(self) -> None:
        """Start no more loads and trials. Partitions in service stay in service."""
        self.is_shut_down = True
        self._logs.stop()

    def end_services(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, after `stop`. The logs stay open."""
        assert self.is_shut_down
        for partition in self._partitions:
            if partition.stage is not LifecycleStage.ABSENT:
                partition.apply(LifecycleEvent.RELEASE)
                partition.close_machine(ErrorCode.NOT_COORDINATOR)
        self.served_by_log.clear()


def _format_load(partition: CoordinatorPartition[Any]) -> str:
    """Return the name of the operation for failures of a load."""
    return f"Loading {partition.name}"
