"""How partitions come and go: taken and read, released, and read again after a failure.

A partition whose append or sync fails, or whose machine contradicts itself, is taken out of service: whoever waits
is told NOT_COORDINATOR and looks for the coordinator again, and the machine is made anew from what the disk holds.
While the disk refuses it is only read: see `refused_partitions.py`.

After a failed sync nobody knows what the disk holds, but for what was durable before: that is read first, and shown
until the log could be opened anew, which ends with a sync. All that was acknowledged is in it, and nothing else is.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic

from coordinator import clock
from coordinator.engine.load_queue import Opening
from coordinator.engine.loader import Load, LoadFailed
from coordinator.engine.machine import InternalTopic, M
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.partition_logs import PartitionLogs
from coordinator.engine.refused_partitions import RefusedPartitions
from coordinator.engine.replication import Replication
from coordinator.engine.shared import Shared
from coordinator.engine.state_keeper import StateKeeper
from coordinator.machine.outcome import Now, Outcome
from coordinator.ongoing_failures import times
from protocol.errors import ErrorCode
from storage.errors import LogDamaged, StorageError
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.producers.log_producers import LogProducers

REMEDY: Final = (
    "What it holds is out of service until the log can be read. With groupd stopped, `groupd log verify` tells "
    "what is wrong with it, and `groupd log repair` saves what is whole."
)

Began = Callable[[Partition[Any], Outcome, Now], None]
"""Takes a partition that is OWNED or READ_ONLY from now on, and what its machine said to that."""


class Ownership(Generic[M]):
    """Of the partitions of one internal topic."""

    def __init__(
        self,
        topic: InternalTopic[M],
        shared: Shared,
        partitions: Sequence[Partition[M]],
        began: Began,
        ended: Callable[[Partition[Any]], None],
    ) -> None:
        """In: who is told that a partition is OWNED, and that it is no longer."""
        self.is_shut_down = False
        self.loads: list[tuple[int, int]] = []
        """Of the last loads: records and nanoseconds."""
        self.was_read: list[Callable[[Partition[M]], None]] = []
        """Called, each, with a partition that has been read: it is in service, or FAILED."""
        self.states = StateKeeper(shared.files, topic.codec, partitions, topic.logger, shared.failures)
        self._topic = topic
        self._partitions = partitions
        self._shared = shared
        self._began = began
        self._ended = ended
        self._log = logging.getLogger(topic.logger)
        self._failures = shared.failures
        self._refused = RefusedPartitions(
            shared.loop, shared.failures, self._trial_refused, self._writable, self.reload
        )
        self.is_in_order: Callable[[Partition[M]], None] = self._refused.is_over
        """Called with a partition when a write of it went through."""
        self._logs = PartitionLogs(topic, shared, self._load, self._load_durable)
        self._by_log: dict[PartitionLog, Partition[M]] = {}

    def owner_of(self, log: PartitionLog) -> Partition[M] | None:
        """The partition that has a machine, with this log."""
        partition = self._by_log.get(log)
        if partition is None or partition.log is not log or partition.machine is None:
            return None
        return partition

    # Coming and going

    def take(self, partition: Partition[M], epoch: int, after_s: float = 0) -> None:
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

    def release(self, partition: Partition[M], epoch: int, reason: str) -> None:
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

    def _let_go(self, partition: Partition[M]) -> None:
        partition.missed.clear()
        log = self._logs.let_go(partition)
        if log is not None:
            self._by_log.pop(log, None)

    def reload(self, partition: Partition[M]) -> None:
        """Takes a partition out of service and reads it again from what the disk holds, or the engine that has its
        log."""
        self._unload(partition)
        if self._topic.replication is None:
            self._open_again(partition)
        else:
            self._take_anew(partition, self._topic.replication)

    def _take_anew(self, partition: Partition[M], replication: Replication) -> None:
        """What the engine has not confirmed may be there later, or never: it is read with a new token only."""
        partition.state = PartitionState.ABSENT
        self._let_go(partition)
        if not self.is_shut_down:
            replication.doubted(partition.name)

    def _open_again(self, partition: Partition[M]) -> None:
        if partition.log is not None:
            self._by_log.pop(partition.log, None)
        self._logs.open_again(partition)

    def failed(self, partition: Partition[M], error: Exception) -> None:
        """The disk refused: out of service, and again from what it holds, to be read until it can be written."""
        count = self._failures.failed(str(partition.name), error)
        if count:
            self._log.error(
                "Unloading %s of %s: %s%s", self._topic.holds, partition.name, reason_of(error), times(count)
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
                        return self._failures.reason(name)
        return None

    def _trial_refused(self, partition: Partition[M], error: Exception) -> None:
        count = self._failures.failed(str(partition.name), error)
        if count:
            self._log.error(
                "Only reading %s until it can be written: %s%s",
                partition.name,
                reason_of(error),
                times(count),
            )

    def _writable(self, partition: Partition[M]) -> None:
        partition.state = PartitionState.OWNED
        self._began(partition, Outcome(), self._shared.group_clock.now())

    def _unload(self, partition: Partition[M]) -> None:
        partition.state = PartitionState.LOADING
        try:
            partition.give_up(ErrorCode.NOT_COORDINATOR)
        except Exception as problem:  # noqa: BLE001 - a machine that contradicts itself may refuse to unload too
            self._log.error("%s could not be unloaded", partition.name, exc_info=problem)
            partition.give_up(ErrorCode.NOT_COORDINATOR)
        self._ended(partition)

    # Reading

    def _load(self, partition: Partition[M], tenure: int, opening: Opening) -> Iterator[object]:
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
            for step in reading.steps():
                yield step
                if not partition.is_loading(tenure):  # released meanwhile
                    return
            for warning in reading.warnings:
                self._log.warning("%s", warning)
            self.states.loaded(partition, reading.state_end_offset)
            self._activate(partition, log, machine, reading.producers)
        except Exception as problem:  # noqa: BLE001 - one partition's records do not keep the daemon from starting
            if partition.tenure == tenure and partition.state is not PartitionState.ABSENT:
                self._not_loaded(partition, problem)
                if partition.state is PartitionState.FAILED:
                    self._tell_read(partition)
            return
        self._tell_read(partition)
        self._failures.is_over(_loading(partition))
        self._report_load(partition, log, reading.records, clock.monotonic_ns() - started_ns)

    def _reading(self, log: PartitionLog, machine: M, end_offset: int | None = None) -> Load:
        topic = self._topic
        expiration_ms = topic.producer_expiration_ms
        return Load(
            log, machine, self._shared.files, topic.codec, end_offset, producer_expiration_ms=expiration_ms
        )

    def _tell_read(self, partition: Partition[M]) -> None:
        for was_read in tuple(self.was_read):
            was_read(partition)

    def _load_durable(self, partition: Partition[M], tenure: int, opening: Opening) -> Iterator[object]:
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
            for step in reading.steps():
                yield step
                if not partition.is_loading(tenure):  # released meanwhile
                    return
            self._show(partition, log.durable_offset, machine, reading.producers)
        except Exception as problem:  # noqa: BLE001 - it is read again, and then told
            self._log.warning(
                "%s cannot be read until its log is opened anew: %s", partition.name, reason_of(problem)
            )
        if self._logs.is_wanted(partition, tenure) and not self.is_shut_down:
            self._logs.reopen(partition, log)

    def _show(self, partition: Partition[M], end_offset: int, machine: M, producers: LogProducers) -> None:
        now = self._shared.group_clock.now()
        fronted = partition.fronted(machine)
        outcome = fronted.loaded(now)
        writes = bool(outcome.records) or outcome.marker is not None
        if not writes and not self.is_shut_down:  # else it is ahead of what can be written
            partition.machine, partition.bare, partition.durable_end = fronted, machine, end_offset
            partition.use_producers(producers)
            partition.state = PartitionState.READ_ONLY
            self._began(partition, outcome, now)

    def _not_loaded(self, partition: Partition[M], problem: Exception) -> None:
        """A partition could not be read: it is out of service, or read again where the disk refused."""
        is_refused = isinstance(problem, StorageError | OSError) and not isinstance(problem, LogDamaged)
        if not is_refused and partition.state is PartitionState.READ_ONLY:
            self._unload(partition)
        if partition.state is not PartitionState.READ_ONLY:
            partition.machine = partition.bare = None
            partition.use_producers(None)
        if isinstance(problem, LogDamaged | LoadFailed):
            partition.state = PartitionState.FAILED
            self._log.error("Failed to load metadata from %s: %s. %s", partition.name, problem, REMEDY)
        elif is_refused:
            count = self._failures.failed(_loading(partition), problem)
            if count:
                self._log.error(
                    "Failed to load metadata from %s: %s; trying again%s",
                    partition.name,
                    reason_of(problem),
                    times(count),
                )
            self._logs.try_later(partition)
        else:
            partition.state = PartitionState.FAILED
            self._log.error("Failed to load metadata from %s", partition.name, exc_info=problem)

    def _report_recovery(self, partition: Partition[M], log: PartitionLog) -> None:
        if log.recovery_report.cut_bytes:
            self._log.warning("%s", log.recovery_report)
        for error in log.recovery_report.put_off:
            self._refused.doubt(partition)
            count = self._failures.counted(error)
            if count:
                self._log.error(
                    "Reading %s without what can wait: %s%s", partition.name, reason_of(error), times(count)
                )

    def _report_load(
        self, partition: Partition[M], log: PartitionLog, records: int, duration_ns: int
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
        self, partition: Partition[M], log: PartitionLog, machine: M, producers: LogProducers
    ) -> None:
        if self.is_shut_down:
            return
        now = self._shared.group_clock.now()
        fronted = partition.fronted(machine)
        outcome = fronted.loaded(now)
        self._by_log[log] = partition
        partition.machine, partition.bare = fronted, machine
        partition.use_producers(producers)
        is_writable = self._refused.is_writable(partition, log)
        partition.state = PartitionState.OWNED if is_writable else PartitionState.READ_ONLY
        self._began(partition, outcome, now)

    def stop(self) -> None:
        """Nothing is taken or read any more."""
        self.is_shut_down = True
        self._logs.stop()
        self._refused.stop()


def _loading(partition: Partition[Any]) -> str:
    """What fails when a partition cannot be read."""
    return f"Loading {partition.name}"
