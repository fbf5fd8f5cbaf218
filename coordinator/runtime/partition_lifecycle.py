"""The life cycle of partitions and their logs: opened and loaded, released, and loaded again after a failure.

A partition is taken out of service when an append or a sync fails, or when its machine contradicts itself.
Waiting clients get NOT_COORDINATOR; the machine is created anew from the log. While the disk refuses writes,
a partition is only read (`refused_partitions.py`).

After a failed sync it is unknown what the disk holds beyond the last durable offset. The records up to that
offset are loaded and served first, until the log was opened again, which ends with a sync. The log then holds
everything that was acknowledged.

`PartitionLogs` opens logs in the thread of the load queue, and begins the leader epoch of each loaded machine
there. It closes a log once compaction has released it too.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic

from coordinator.core import clock
from coordinator.core.daemon_log import format_repeats
from coordinator.core.outcome import Now, Outcome
from coordinator.core.shared_types import LogFlush
from coordinator.runtime.coordinator_partition import CoordinatorPartition, EngineContext, PartitionState
from coordinator.runtime.load_queue import Opening
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_loader import LoadFailed, PartitionLoad, begin_leader_epoch
from coordinator.runtime.refused_partitions import RETRY_S, RefusedPartitions
from coordinator.runtime.replication import Replication
from coordinator.runtime.state_keeper import StateKeeper
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import LogDamaged, LogPoisoned, StorageError, format_error_reason

UNPIN_RETRY_S: Final = 0.01

REMEDY: Final = (
    "What it holds is out of service until the log can be read. With groupd stopped, `groupd log verify` tells "
    "what is wrong with it, and `groupd log repair` saves what is whole."
)

Began = Callable[[CoordinatorPartition[Any], Outcome, Now], None]
"""Takes a partition that is OWNED or READ_ONLY from now on, and what its machine said to that."""


class PartitionLifecycle(Generic[M]):
    """The life cycle of the partitions of one internal topic."""

    def __init__(
        self,
        topic: InternalTopic[M],
        engine_context: EngineContext,
        partitions: Sequence[CoordinatorPartition[M]],
        began: Began,
        ended: Callable[[CoordinatorPartition[Any]], None],
    ) -> None:
        """In: who is told that a partition is OWNED, and that it is no longer."""
        self.is_shut_down = False
        self.loads: list[tuple[int, int]] = []
        """Of the last loads: records and nanoseconds."""
        self.was_read: list[Callable[[CoordinatorPartition[M]], None]] = []
        """Called, each, with a partition that has been read: it is in service, or FAILED."""
        self.states = StateKeeper(
            engine_context.files, topic.codec, partitions, topic.logger, engine_context.failures
        )
        self._topic = topic
        self._partitions = partitions
        self._engine_context = engine_context
        self._began = began
        self._ended = ended
        self._log = logging.getLogger(topic.logger)
        self._failures = engine_context.failures
        self._refused = RefusedPartitions(
            engine_context.loop, engine_context.failures, self._trial_refused, self._writable, self.reload
        )
        self.is_in_order: Callable[[CoordinatorPartition[M]], None] = self._refused.is_over
        """Called with a partition when a write of it went through."""
        self._logs = PartitionLogs(topic, engine_context, self._load, self._load_durable)
        self._by_log: dict[PartitionLog, CoordinatorPartition[M]] = {}

    def owner_of(self, log: PartitionLog) -> CoordinatorPartition[M] | None:
        """The partition that has a machine, with this log."""
        partition = self._by_log.get(log)
        if partition is None or partition.log is not log or partition.machine is None:
            return None
        return partition

    # Coming and going

    def take(self, partition: CoordinatorPartition[M], epoch: int, after_s: float = 0) -> None:
        """Opens and reads a partition that is ABSENT or FAILED, while the loop does other work; one that is here
        stays. An epoch that is not above the last one is old news. It is LOADING for `after_s` at least."""
        if self.is_shut_down or epoch <= partition.epoch:
            return
        partition.epoch = epoch
        if partition.state is PartitionState.FAILED:
            self._unload(partition)
            self._let_go(partition)
            partition.state = PartitionState.ABSENT
        if partition.state is PartitionState.ABSENT:
            partition.tenure += 1
            partition.state = PartitionState.LOADING
            self._logs.open_in(partition, after_s)

    def release(self, partition: CoordinatorPartition[M], epoch: int, reason: str) -> None:
        """Gives a partition up: whoever waits is told NOT_COORDINATOR, what was written stays written, and the log
        is closed. The epoch is that of the next owner; one that is not above the last one is old news."""
        if epoch <= partition.epoch:
            return
        partition.epoch = epoch
        if partition.state is PartitionState.ABSENT:
            return
        self._log.info("Releasing %s: %s", partition.name, reason)
        self._unload(partition)
        partition.state = PartitionState.ABSENT
        self._let_go(partition)

    def _let_go(self, partition: CoordinatorPartition[M]) -> None:
        partition.missed_notifications.clear()
        log = self._logs.let_go(partition)
        if log is not None:
            self._by_log.pop(log, None)

    def reload(self, partition: CoordinatorPartition[M]) -> None:
        """Takes a partition out of service and reads it again from what the disk holds, or the engine that has its
        log."""
        self._unload(partition)
        if self._topic.replication is None:
            self._open_again(partition)
        else:
            self._take_anew(partition, self._topic.replication)

    def _take_anew(self, partition: CoordinatorPartition[M], replication: Replication) -> None:
        """What the engine has not confirmed may be there later, or never: it is read with a new token only."""
        partition.state = PartitionState.ABSENT
        self._let_go(partition)
        if not self.is_shut_down:
            replication.on_doubted(partition.name)

    def _open_again(self, partition: CoordinatorPartition[M]) -> None:
        if partition.log is not None:
            self._by_log.pop(partition.log, None)
        self._logs.open_again(partition)

    def failed(self, partition: CoordinatorPartition[M], error: Exception) -> None:
        """The disk refused: out of service, and again from what it holds, to be read until it can be written."""
        count = self._failures.record_failure(str(partition.name), error)
        if count:
            self._log.error(
                "Unloading %s of %s: %s%s",
                self._topic.contents_label,
                partition.name,
                format_error_reason(error),
                format_repeats(count),
            )
        if self._topic.replication is not None:
            self.reload(partition)
            return
        self._refused.count(partition)
        was_read_only = partition.state is PartitionState.READ_ONLY
        self._unload(partition)
        if was_read_only:
            # Reading it has brought up something to write, and would again.
            self._logs.try_later(partition)
        else:
            self._open_again(partition)

    def doubt(self) -> None:
        """The disk may refuse what partitions write: each is tried when it was read."""
        for partition in self._partitions:
            self._refused.doubt(partition)

    def refusal(self) -> str | None:
        """Why the disk does not take the records of a partition; None while it takes all."""
        for partition in self._partitions:
            if partition.state in (PartitionState.READ_ONLY, PartitionState.LOADING):
                for name in (str(partition.name), _loading(partition)):
                    if name in self._failures:
                        return self._failures.find_reason(name)
        return None

    def _trial_refused(self, partition: CoordinatorPartition[M], error: Exception) -> None:
        count = self._failures.record_failure(str(partition.name), error)
        if count:
            self._log.error(
                "Only reading %s until it can be written: %s%s",
                partition.name,
                format_error_reason(error),
                format_repeats(count),
            )

    def _writable(self, partition: CoordinatorPartition[M]) -> None:
        partition.state = PartitionState.OWNED
        self._began(partition, Outcome(), self._engine_context.group_clock.now())

    def _unload(self, partition: CoordinatorPartition[M]) -> None:
        partition.state = PartitionState.LOADING
        try:
            partition.close_machine(ErrorCode.NOT_COORDINATOR)
        except Exception as problem:  # noqa: BLE001 - a machine that contradicts itself may refuse to unload too
            self._log.error("%s could not be unloaded", partition.name, exc_info=problem)
            partition.close_machine(ErrorCode.NOT_COORDINATOR)
        self._ended(partition)

    # Reading

    def _load(self, partition: CoordinatorPartition[M], tenure: int, opening: Opening) -> Iterator[object]:
        started_ns = clock.monotonic_ns()
        self._logs.opened(partition, tenure)
        try:
            log = opening.result()
            if not self._logs.is_wanted(partition, tenure):  # released meanwhile
                log.close(clean=False)
                return
            if partition.state is PartitionState.READ_ONLY:
                self._unload(partition)
            self._logs.is_sound(partition)
            if log is not partition.log:
                partition.log = log
                self._report_recovery(partition, log)
            machine = self._topic.new_machine(partition.number, log.leader_epochs.current)
            reading = self._reading(log, machine)
            for step in reading.run_steps():
                yield step
                if not partition.is_loading(tenure):  # released meanwhile
                    return
            for warning in reading.warnings:
                self._log.warning("%s", warning)
            self.states.on_loaded(partition, reading.state_end_offset)
            self._activate(partition, log, machine, reading.producers)
        except Exception as problem:  # noqa: BLE001 - one partition's records do not keep the daemon from starting
            if partition.tenure == tenure and partition.state is not PartitionState.ABSENT:
                self._not_loaded(partition, problem)
                if partition.state is PartitionState.FAILED:
                    self._tell_read(partition)
            return
        self._tell_read(partition)
        self._failures.record_recovery(_loading(partition))
        self._report_load(partition, log, reading.records, clock.monotonic_ns() - started_ns)

    def _reading(self, log: PartitionLog, machine: M, end_offset: int | None = None) -> PartitionLoad:
        topic = self._topic
        expiration_ms = topic.producer_expiration_ms
        return PartitionLoad(
            log,
            machine,
            self._engine_context.files,
            topic.codec,
            end_offset,
            producer_expiration_ms=expiration_ms,
        )

    def _tell_read(self, partition: CoordinatorPartition[M]) -> None:
        for was_read in tuple(self.was_read):
            was_read(partition)

    def _load_durable(
        self, partition: CoordinatorPartition[M], tenure: int, opening: Opening
    ) -> Iterator[object]:
        """Shows what is durable of a log that has to be opened anew, if that can be read; then has it opened."""
        if opening.exception() is not None:
            self._logs.try_later(partition)
            return
        log = opening.result()
        if not partition.is_loading(tenure):
            return
        try:
            machine = self._topic.new_machine(partition.number, log.leader_epochs.current)
            reading = self._reading(log, machine, log.durable_offset)
            for step in reading.run_steps():
                yield step
                if not partition.is_loading(tenure):  # released meanwhile
                    return
            self._show(partition, log.durable_offset, machine, reading.producers)
        except Exception as problem:  # noqa: BLE001 - it is read again, and then told
            self._log.warning(
                "%s cannot be read until its log is opened anew: %s",
                partition.name,
                format_error_reason(problem),
            )
        if self._logs.is_wanted(partition, tenure) and not self.is_shut_down:
            self._logs.reopen(partition, log)

    def _show(
        self, partition: CoordinatorPartition[M], end_offset: int, machine: M, producers: ProducerStateManager
    ) -> None:
        now = self._engine_context.group_clock.now()
        fronted = partition.decorate_machine(machine)
        outcome = fronted.on_loaded(now)
        writes = bool(outcome.records) or outcome.marker is not None
        if not writes and not self.is_shut_down:  # else it is ahead of what can be written
            partition.machine, partition.undecorated_machine, partition.durable_end = (
                fronted,
                machine,
                end_offset,
            )
            partition.set_producers(producers)
            partition.state = PartitionState.READ_ONLY
            self._began(partition, outcome, now)

    def _not_loaded(self, partition: CoordinatorPartition[M], problem: Exception) -> None:
        """A partition could not be read: it is out of service, or read again where the disk refused."""
        is_refused = isinstance(problem, StorageError | OSError) and not isinstance(problem, LogDamaged)
        if not is_refused and partition.state is PartitionState.READ_ONLY:
            self._unload(partition)
        if partition.state is not PartitionState.READ_ONLY:
            partition.machine = partition.undecorated_machine = None
            partition.set_producers(None)
        if isinstance(problem, LogDamaged | LoadFailed):
            partition.state = PartitionState.FAILED
            self._log.error("Failed to load metadata from %s: %s. %s", partition.name, problem, REMEDY)
        elif is_refused:
            count = self._failures.record_failure(_loading(partition), problem)
            if count:
                self._log.error(
                    "Failed to load metadata from %s: %s; trying again%s",
                    partition.name,
                    format_error_reason(problem),
                    format_repeats(count),
                )
            self._logs.try_later(partition)
        else:
            partition.state = PartitionState.FAILED
            self._log.error("Failed to load metadata from %s", partition.name, exc_info=problem)

    def _report_recovery(self, partition: CoordinatorPartition[M], log: PartitionLog) -> None:
        if log.recovery_report.cut_bytes:
            self._log.warning("%s", log.recovery_report)
        for error in log.recovery_report.postponed_errors:
            self._refused.doubt(partition)
            count = self._failures.count_failure(error)
            if count:
                self._log.error(
                    "Reading %s without what can wait: %s%s",
                    partition.name,
                    format_error_reason(error),
                    format_repeats(count),
                )

    def _report_load(
        self, partition: CoordinatorPartition[M], log: PartitionLog, records: int, duration_ns: int
    ) -> None:
        partition.loaded_records = records
        self.loads = [*self.loads[-99:], (records, duration_ns)]
        if records:
            self._log.info(
                "Finished loading of metadata from %s in %dms. Loaded %d records which total to %d bytes.",
                partition.name,
                duration_ns // 1_000_000,
                records,
                log.size_bytes,
            )

    def _activate(
        self,
        partition: CoordinatorPartition[M],
        log: PartitionLog,
        machine: M,
        producers: ProducerStateManager,
    ) -> None:
        if self.is_shut_down:
            return
        now = self._engine_context.group_clock.now()
        fronted = partition.decorate_machine(machine)
        outcome = fronted.on_loaded(now)
        self._by_log[log] = partition
        partition.machine, partition.undecorated_machine = fronted, machine
        partition.set_producers(producers)
        is_writable = self._refused.is_writable(partition, log)
        partition.state = PartitionState.OWNED if is_writable else PartitionState.READ_ONLY
        self._began(partition, outcome, now)

    def stop(self) -> None:
        """Nothing is taken or read any more."""
        self.is_shut_down = True
        self._logs.stop()
        self._refused.stop()


def _loading(partition: CoordinatorPartition[Any]) -> str:
    """What fails when a partition cannot be read."""
    return f"Loading {partition.name}"


Load = Callable[[CoordinatorPartition[Any], int, Opening], Iterator[object]]
"""Takes a partition, its tenure when the log was wanted, and the log: reads it, step by step."""


class PartitionLogs:
    """Opens and closes the logs of the partitions of one internal topic. All methods belong to the event loop's
    thread."""

    def __init__(
        self, topic: InternalTopic[Any], engine_context: EngineContext, load: Load, load_durable: Load
    ) -> None:
        """In: what reads a log that was opened; what reads of one that has failed only what is durable, and then
        has it opened anew."""
        self._topic = topic
        self._engine_context = engine_context
        self._load = load
        self._load_durable = load_durable
        self._is_stopped = False
        self._unsound: dict[int, PartitionLog] = {}
        """Logs that are being opened anew, by partition; nobody else looks at them."""
        self._reopening: set[tuple[int, int]] = set()
        """Partitions, with their tenure, whose log is in the thread that opens."""
        self._pinned: dict[int, PartitionLog] = {}
        """Logs of partitions that were given up while compaction was at work on them, until it is not any more."""

    def stop(self) -> None:
        """Nothing is opened any more."""
        self._is_stopped = True

    def open_in(self, partition: CoordinatorPartition[Any], after_s: float) -> None:
        """Has a partition's log opened and read, in some time."""
        if after_s:
            self._engine_context.loop.call_later(after_s, self._open_unpinned, partition, partition.tenure)
        else:
            self._open_unpinned(partition, partition.tenure)

    def _open_unpinned(self, partition: CoordinatorPartition[Any], tenure: int) -> None:
        """Opens a partition whose last log compaction may not have let go of yet."""
        if not partition.is_loading(tenure) or self._is_stopped:
            return
        if partition.number in self._pinned:
            self._engine_context.loop.call_later(UNPIN_RETRY_S, self._open_unpinned, partition, tenure)
        else:
            self._open(partition)

    def _open(self, partition: CoordinatorPartition[Any]) -> None:
        open_log = partial(self._for_good, partial(self._topic.open_log, partition.number), None)
        self._engine_context.load_queue.add_log(open_log, partial(self._load, partition, partition.tenure))

    def _for_good(self, open_log: Callable[[], PartitionLog], known: PartitionLog | None) -> PartitionLog:
        """A log whose machine may write to it, in the thread. In: what opens it, and the log that may be what it
        gives. Raises StorageError, OSError."""
        log = open_log()
        if self._topic.starts_leader_epochs:
            try:
                begin_leader_epoch(log)
            except BaseException:
                if log is not known:
                    log.close(clean=False)
                raise
        return log

    def open_again(self, partition: CoordinatorPartition[Any]) -> None:
        """Reads what the disk holds; the log itself is opened anew only where it is not sure what that is."""
        log = partition.log or self._unsound.get(partition.number)
        if log is None:
            self._open(partition)
            return
        load = partial(self._load, partition, partition.tenure)
        if log.is_pinned:
            # Its compaction notices soon. Until then it may be about to replace files.
            log.poison(LogPoisoned(log.directory, "is about to be read again"))
            self._engine_context.loop.call_later(UNPIN_RETRY_S, self._try, partition, partition.tenure)
            return
        itself = partial(_itself, log)
        if log.failure is None and not log.is_closed:
            self._engine_context.load_queue.add_log(partial(self._for_good, itself, log), load)
            return
        partition.log = None
        self._unsound[partition.number] = log
        if log.is_closed or self._topic.flush is not LogFlush.ALWAYS:
            self.reopen(partition, log)
        else:
            self._engine_context.load_queue.add_log(
                itself, partial(self._load_durable, partition, partition.tenure)
            )

    def reopen(self, partition: CoordinatorPartition[Any], log: PartitionLog) -> None:
        """Has a log that has failed opened anew and read."""
        tenure = partition.tenure
        if (partition.number, tenure) not in self._reopening:
            self._reopening.add((partition.number, tenure))
            reopen = partial(self._for_good, log.reopen, None)
            self._engine_context.load_queue.add_log(reopen, partial(self._load, partition, tenure))

    def try_later(self, partition: CoordinatorPartition[Any]) -> None:
        """Has the log of a partition that the disk refused read again in a while, if that is wanted then."""
        self._engine_context.loop.call_later(RETRY_S, self._try, partition, partition.tenure)

    def _try(self, partition: CoordinatorPartition[Any], tenure: int) -> None:
        if not self._is_stopped and self.is_wanted(partition, tenure):
            self.open_again(partition)

    @staticmethod
    def is_wanted(partition: CoordinatorPartition[Any], tenure: int) -> bool:
        """Whether a log that is opened is wanted; a partition that shows what is durable goes on with it."""
        shows = partition.state is PartitionState.READ_ONLY and partition.log is None
        return partition.is_loading(tenure) or (shows and partition.tenure == tenure)

    def opened(self, partition: CoordinatorPartition[Any], tenure: int) -> None:
        """What a partition wanted opened in this tenure was, or could not be."""
        self._reopening.discard((partition.number, tenure))

    def is_sound(self, partition: CoordinatorPartition[Any]) -> None:
        """A partition has its log again."""
        self._unsound.pop(partition.number, None)

    def let_go(self, partition: CoordinatorPartition[Any]) -> PartitionLog | None:
        """Closes the log of a partition that has no machine, as soon as compaction has let go of it too. Out: the
        log, if there was one."""
        log, partition.log = partition.log, None
        log = self._unsound.pop(partition.number, None) or log
        if log is None:
            return None
        if log.is_pinned:
            # Its compaction notices soon. Until then it may be about to replace files.
            log.poison(LogPoisoned(log.directory, "is being given up"))
            self._pinned[partition.number] = log
            self._engine_context.loop.call_later(UNPIN_RETRY_S, self._close_unpinned, partition.number, log)
        elif not log.is_closed:
            log.close(clean=False)
        return log

    def _close_unpinned(self, number: int, log: PartitionLog) -> None:
        if log.is_pinned and not self._is_stopped:
            self._engine_context.loop.call_later(UNPIN_RETRY_S, self._close_unpinned, number, log)
            return
        del self._pinned[number]
        if not log.is_closed:
            log.close(clean=False)


def _itself(log: PartitionLog) -> PartitionLog:
    return log
