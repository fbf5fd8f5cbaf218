"""Injects faults between groups and the disk: an append or a sync that fails or is delayed, an append that is
torn, and crashes at given points.

A request that causes an append arms a disk fault. The fault acts on the batch of that append, which may include
records of other requests in the same iteration of the event loop. The injector intercepts appends and syncs only
while a fault is armed.

`crash: partition` crashes one partition: groupd disconnects its waiting clients and loads it again. A crash of
the machine would lose bytes that were written and not synced. For a crash before the sync groupd therefore does
not write the batch at all; no client could have seen it.

A torn append writes the first bytes of a batch. Then it fails, which poisons the log, or the process ends.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from coordinator.broker.services import Services
from coordinator.control.faults.fault_matchers import RequestAttributes
from coordinator.control.faults.fault_reports import FaultAudit
from coordinator.control.faults.installed_fault import InstalledFault, find_first_triggered
from coordinator.core.interceptors import InterceptorRank
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.flusher import Submit
from coordinator.runtime.producer_batch import AppendTarget
from coordinator.runtime.runtime import Append
from storage.leader_epochs import LeaderEpochs
from storage.log import PartitionLog
from storage.storage_errors import AppendFailed, StorageError, SyncFailed
from storage.syncer import SyncResult


class TornAppends:
    """An `AppendTarget` that tears the next append to a log. The log is unusable afterwards, as after a real torn
    write.
    """

    def __init__(self, log: PartitionLog, torn_bytes: int, error: int) -> None:
        """Create a target that writes `torn_bytes` bytes of the next append to a log.

        `error` is the errno that the append raises; 0 if the process ends next.
        """
        self._log = log
        self._torn_bytes = torn_bytes
        self._error = error

    @property
    def log_end_offset(self) -> int:
        """The offset of the next batch."""
        return self._log.log_end_offset

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The leader epochs of the log."""
        return self._log.leader_epochs

    def append_encoded(self, data: bytes, offset_count: int, latest_ms: int) -> bool:
        """Write the beginning of a batch; arguments as of `PartitionLog.append_encoded`. Raises AppendFailed."""
        log = self._log
        path = log.segments[-1].path
        file = log.files.open_append(path)
        try:
            # One byte less than all, because a complete batch is not torn.
            file.write(data[: min(self._torn_bytes, len(data) - 1)])
        finally:
            file.close()
        if not self._error:
            return False
        cause = OSError(self._error, os.strerror(self._error), path)
        failure = AppendFailed(path, f"cannot append: {cause.strerror}, after {self._torn_bytes} bytes")
        failure.__cause__ = cause
        raise log.poison(failure)


GroupPartition = CoordinatorPartition[GroupShard]
_POINTS: Final = ("before_append", "append", "after_append")
_SYNC_POINTS: Final = ("sync", "after_sync")


def kill_process() -> None:
    """End this process with SIGKILL, as the closest approximation of a power failure."""
    os.kill(os.getpid(), signal.SIGKILL)


class _DelayedOperation(NamedTuple):
    """An operation that a fault delays. A delayed append belongs to `machine` and is dropped with it."""

    fault: InstalledFault
    timer: asyncio.TimerHandle
    go_on: Callable[[], None]
    machine: object = None


class DiskInjector:
    def __init__(self, services: Services, told: FaultAudit) -> None:
        self._services = services
        self._told = told
        self._runtime = services.runtime
        self._flusher = services.flusher
        self._is_intercepting = False
        self._armed: dict[int, dict[str, InstalledFault]] = {}
        """By partition number: the faults on its next batch, by point."""
        self._to_sync: dict[int, dict[str, InstalledFault]] = {}
        """By partition number: the faults on the sync of its written batch, by point."""
        self._late_appends: dict[int, _DelayedOperation] = {}
        """The delayed append of each partition, by partition number."""
        self._late_syncs: dict[int, _DelayedOperation] = {}
        self._numbers = count()
        self._runtime.unload_listeners.append(self._unloaded)

    @property
    def waits(self) -> int:
        """Return the number of delayed and armed batches and syncs."""
        by_partition = len(self._armed) + len(self._to_sync)
        return by_partition + len(self._late_appends) + len(self._late_syncs)

    def reached(
        self, partition: GroupPartition, asked: RequestAttributes, faults: Sequence[InstalledFault]
    ) -> None:
        """Arm the faults of a request with records that the end of this iteration appends."""
        armed = self._armed.get(partition.number, {})
        for point in (*_POINTS, *_SYNC_POINTS):
            there = [fault for fault in faults if fault.action.at == point]
            fault = find_first_triggered(there, lambda _: True) if there else None
            if fault is not None and point not in armed:
                self._told.report_hit(fault, fault.action.kind, asked)
                armed[point] = fault
        if armed:
            self._armed[partition.number] = armed
            self._intercept()

    def let_go(self, fault: InstalledFault) -> None:
        """Forget a removed fault: disarm it, and continue the operations that it delays."""
        for by_partition in (self._armed, self._to_sync):
            for number, armed in list(by_partition.items()):
                for point in [point for point, other in armed.items() if other is fault]:
                    del armed[point]
                if not armed:
                    del by_partition[number]
        for waiting in (self._late_appends, self._late_syncs):
            for number, late in list(waiting.items()):
                if late.fault is fault:
                    late.timer.cancel()
                    waiting.pop(number, None)
                    late.go_on()
        self._stop_intercepting()

    def _intercept(self) -> None:
        """Intercept appends and syncs from now on. Servers that share a flusher have an interceptor each."""
        if not self._is_intercepting:
            self._is_intercepting = True
            self._runtime.append_interceptors.add(InterceptorRank.FAULTS, self._intercept_append)
            self._flusher.sync_interceptors.add(InterceptorRank.FAULTS, self._intercept_sync)

    def _stop_intercepting(self) -> None:
        """Let appends and syncs pass when no fault is armed or delays an append."""
        if self._is_intercepting and not (self._armed or self._to_sync or self._late_appends):
            self._is_intercepting = False
            self._runtime.append_interceptors.remove(self._intercept_append)
            self._flusher.sync_interceptors.remove(self._intercept_sync)

    def _unloaded(self, partition: GroupPartition) -> None:
        """Forget appends of an unloaded partition that had not reached the disk, and the faults on them."""
        number = partition.number
        self._armed.pop(number, None)
        self._to_sync.pop(number, None)
        late = self._late_appends.pop(number, None)
        if late is not None:
            late.timer.cancel()
        self._stop_intercepting()

    # Appending

    def _intercept_append(self, append: Append[GroupShard]) -> Append[GroupShard]:
        return partial(self._append, append)

    def _append(
        self, append: Append[GroupShard], partition: GroupPartition, log: AppendTarget, wall_ms: int
    ) -> bool:
        late = self._late_appends.get(partition.number)
        if late is not None:
            if late.machine is partition.plain_machine:
                return False
            late.timer.cancel()
            del self._late_appends[partition.number]
        armed = self._armed.get(partition.number, {})
        for point in _POINTS:
            fault = armed.pop(point, None)
            if fault is None:
                continue
            if point == "after_append" and fault.action.kills:
                append(partition, log, wall_ms)
                kill_process()
            if not self._goes_on(fault, append, partition, wall_ms):
                return False
        self._armed.pop(partition.number, None)
        if armed:
            self._to_sync[partition.number] = armed
        self._stop_intercepting()
        return append(partition, log, wall_ms)

    def _goes_on(
        self, fault: InstalledFault, append: Append[GroupShard], partition: GroupPartition, wall_ms: int
    ) -> bool:
        """Apply a fault to an append. Return whether the append takes place. Raises AppendFailed."""
        action = fault.action
        if action.kind == "delay":
            go_on = partial(self._append_now, partition.number)
            timer = self._services.loop.call_later(fault.draw_delay_s(), go_on)
            self._late_appends[partition.number] = _DelayedOperation(
                fault, timer, go_on, partition.plain_machine
            )
            return False
        # The batch does not reach the later points.
        self._armed.pop(partition.number, None)
        self._stop_intercepting()
        assert partition.log is not None
        if action.torn_bytes:
            append(partition, TornAppends(partition.log, action.torn_bytes, action.fail_errno), wall_ms)
        if action.kind == "crash":
            if action.kills:
                kill_process()
            self._services.loop.call_soon(self._crash, partition, partition.tenure)
            return False
        error = OSError(action.fail_errno, f"{os.strerror(action.fail_errno)} (fault {fault.name})")
        raise AppendFailed(partition.log.directory, f"cannot append: {error}") from error

    def _append_now(self, number: int) -> None:
        self._late_appends.pop(number, None)
        partition = self._runtime.partitions[number]
        if partition.pending_records:
            self._runtime.schedule_append(partition)
        if not self._armed.get(number):
            self._armed.pop(number, None)
        self._stop_intercepting()

    # Syncing

    def _intercept_sync(self, submit: Submit) -> Submit:
        return partial(self._sync, submit)

    def _sync(self, submit: Submit, logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        logs = list(logs)
        failed: dict[PartitionLog, StorageError] = {}
        delay_s, late_for = 0.0, None
        after: list[tuple[InstalledFault, GroupPartition, PartitionLog]] = []
        for log in logs:
            partition = self._runtime.lifecycle.served_by_log.get(log)
            armed = {} if partition is None else self._to_sync.pop(partition.number, {})
            if partition is None:
                continue
            if (fault := armed.pop("sync", None)) is not None:
                if fault.action.kind == "delay":
                    delay_s, late_for = max(delay_s, fault.draw_delay_s()), fault
                else:
                    failed[log] = self._fail(fault, log)
            if (fault := armed.pop("after_sync", None)) is not None and log not in failed:
                after.append((fault, partition, log))
        self._stop_intercepting()
        rest = [log for log in logs if log not in failed]
        submit_rest = partial(submit, rest, partial(self._synced, done, failed, after))
        if late_for is None:
            submit_rest()
            return
        number = next(self._numbers)
        timer = self._services.loop.call_later(delay_s, self._submit_now, number)
        self._late_syncs[number] = _DelayedOperation(late_for, timer, submit_rest)

    def _submit_now(self, number: int) -> None:
        self._late_syncs.pop(number).go_on()

    @staticmethod
    def _fail(fault: InstalledFault, log: PartitionLog) -> StorageError:
        error = fault.action.fail_errno
        cause = OSError(error, f"{os.strerror(error)} (fault {fault.name})")
        failure = SyncFailed(log.directory, f"cannot sync: {cause}")
        failure.__cause__ = cause
        return log.poison(failure)

    def _synced(
        self,
        done: Callable[[SyncResult], None],
        failed: dict[PartitionLog, StorageError],
        after: Sequence[tuple[InstalledFault, GroupPartition, PartitionLog]],
        result: SyncResult,
    ) -> None:
        """Apply faults after a sync, in the thread of the sync, before the result is reported."""
        for fault, partition, log in after:
            if log in result.refused:  # the flusher submits it again
                self._services.loop.call_soon_threadsafe(self._await_sync, partition, fault)
                continue
            if log in result.failed:
                continue
            if fault.action.kills:
                kill_process()
            self._services.loop.call_soon_threadsafe(self._crash, partition, partition.tenure)
        done(SyncResult({**result.failed, **failed}, result.refused, result.full))

    def _await_sync(self, partition: GroupPartition, fault: InstalledFault) -> None:
        if not fault.is_over:
            self._to_sync[partition.number] = {"after_sync": fault}
            self._intercept()

    # Crashing

    def crash(self, fault: InstalledFault, partition: GroupPartition) -> None:
        """Crash before a response: its records are durable, and the client gets no response."""
        if fault.action.kills:
            kill_process()
        self._services.loop.call_soon(self._crash, partition, partition.tenure)

    def _crash(self, partition: GroupPartition, tenure: int) -> None:
        """Close the connections of waiting clients of a partition and reload it."""
        if partition.machine is None or partition.tenure != tenure:
            return
        for waiting in list(partition.waiting.values()):
            waiting.reply.abort_connection()
        self._runtime.lifecycle.reload_partition(partition)
