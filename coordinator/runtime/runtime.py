"""Runs the machines of one internal topic: connects them with the clock, the timers, the log and the callers.

The runtime applies an outcome at once: it keeps the records for the batch at the end of this loop iteration, sets
the timers, publishes the events and sends the responses. The caller gets its response, or AWAITING_DISK while the
gate holds it, or BLOCKED while the machine has none yet. At the end of the iteration the runtime appends one batch
to each partition with pending records and requests a sync. The gate opens when the records become durable.

A failed append, a failed sync or an internal error of the machine takes a partition out of service: see
`coordinator/runtime/partition_lifecycle.py`. Nothing else undoes an outcome.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic

from coordinator.core import clock
from coordinator.core.interceptors import InterceptorChain
from coordinator.core.outcome import Context, Message, Now, Outcome
from coordinator.core.reply import DeferReply
from coordinator.core.response_status import AWAITING_DISK, BLOCKED, DeferredResponse
from coordinator.core.shared_types import LogFlush
from coordinator.runtime.coordinator_partition import (
    CoordinatorPartition,
    EngineContext,
    WaitingReply,
    WorkRunner,
)
from coordinator.runtime.flusher import DurabilityBackend
from coordinator.runtime.machine import B, InternalTopic, M
from coordinator.runtime.partition_driver import RETRY_S, PartitionDriver
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.producer_batch import AppendTarget
from coordinator.runtime.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.partitioner import partition_for
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

MAX_ROUTED_KEYS: Final = 100_000
_NO_WAITER: Final = 0
"""The waiter number for requests without a caller."""


Append = Callable[[CoordinatorPartition[M], AppendTarget, int], bool]
"""Takes a partition, its log, and the Unix time in milliseconds. Appends the pending records, and returns whether
that rolled a segment. An interceptor that appends nothing keeps the records pending, and calls `schedule_append`
for them later. Raises StorageError, OSError.
"""


class Runtime(Generic[M]):
    """All partitions of one internal topic, including the partitions of other processes."""

    def __init__(
        self,
        topic: InternalTopic[M],
        engine_context: EngineContext,
        durability: DurabilityBackend | None = None,
    ) -> None:
        """Create a runtime. `durability` makes the logs durable; default: the flusher of the engine."""
        self.topic = topic
        self._durability: DurabilityBackend = durability or engine_context.flusher
        self.partitions: list[CoordinatorPartition[M]] = [
            self._create_partition(number) for number in range(topic.partitions)
        ]
        self.readable_listeners: list[Callable[[int], None]] = []
        """Called with the number of a partition after its readable offset has advanced."""
        self.timer_listeners: list[Callable[[CoordinatorPartition[M], Hashable, Outcome, int], None]] = []
        """Called after a timer has fired: partition, key, outcome, and duration in nanoseconds."""
        self.unload_listeners: list[Callable[[CoordinatorPartition[M]], None]] = []
        """Called with a partition after its machine and its pending records are gone."""
        self.append_interceptors: InterceptorChain[Append[M]] = InterceptorChain(self._compose_append)
        """Interceptors of the appends to the logs of this topic."""
        self._append: Append[M] = CoordinatorPartition.append_buffered
        self.is_shut_down = False
        self.next_waiter = engine_context.next_waiter
        """Returns a new waiter number."""
        self._engine_context = engine_context
        self._is_flushed_always = topic.flush is LogFlush.ALWAYS
        self._log = logging.getLogger(topic.logger)
        self.by_key: dict[str, CoordinatorPartition[M]] = {}
        """Cache of partitions by key; `find_partition` fills it."""
        self._dirty: dict[CoordinatorPartition[M], None] = {}
        self._clock = engine_context.group_clock
        self._timers = Timers(engine_context.loop, self._clock, self._on_timer)
        self.lifecycle = self._create_lifecycle()
        self._served_by_log = self.lifecycle.served_by_log
        self._work_runner = WorkRunner(engine_context, self._on_work_done)

    def _create_partition(self, number: int) -> CoordinatorPartition[M]:
        return CoordinatorPartition(self.topic, number)

    def _create_lifecycle(self) -> PartitionDriver[M]:
        return PartitionDriver(self.topic, self._engine_context, self.partitions, self)

    # Routing

    def find_partition(self, key: str) -> CoordinatorPartition[M]:
        """Return the partition of a key (a group id)."""
        partition = self.by_key.get(key)
        if partition is None:
            partition = self.partitions[partition_for(key, len(self.partitions))]
            if len(self.by_key) >= MAX_ROUTED_KEYS:
                self.by_key.clear()
            self.by_key[key] = partition
        return partition

    @property
    def timer_count(self) -> int:
        """Number of scheduled timers."""
        return len(self._timers)

    # Requests

    def execute_request(
        self, partition: CoordinatorPartition[M], request: Any, context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        """Pass a request to a partition that has a machine, at the arrival time of the current request.

        Return the response if it is available at once. Otherwise return AWAITING_DISK or BLOCKED, and send the
        response to the reply that `defer` creates.
        """
        if partition.state is PartitionState.READ_ONLY and not self.topic.is_read_only(request):
            # Kafka's broker also answers this if an append fails with KAFKA_STORAGE_ERROR.
            return self.topic.build_error_response(request, context.api_version, ErrorCode.NOT_COORDINATOR)
        machine = partition.machine
        assert machine is not None, partition.name
        now = self._clock.at_request()
        try:
            reply = self._apply_outcome(partition, machine.handle(request, context, now), now, context.waiter)
        except Exception as problem:  # noqa: BLE001 - the daemon survives a failure of one partition's machine
            return self.on_internal_error(partition, problem, request, context.api_version)
        if reply is BLOCKED:
            deferred = defer(True)
        else:
            position = partition.position
            # The pending records of this iteration are not in the log yet.
            if not partition.pending_records and position <= partition.confirmed_position:
                return reply
            partition.gate.hold_answer(position, context.waiter, reply)
            reply = AWAITING_DISK
            deferred = defer(False)
        waiting, waiter = partition.waiting, context.waiter
        waiting[waiter] = WaitingReply(deferred, request, context.api_version)
        deferred.on_abandoned = partial(waiting.pop, waiter, None)
        return reply

    def execute_immediate_request(
        self, partition: CoordinatorPartition[M], request: Any, context: Context
    ) -> object:
        """Answer a request that never waits for the log or for other members: a heartbeat."""
        machine, now = partition.machine, self._clock.at_request()
        assert machine is not None, partition.name
        try:
            reply = self._apply_outcome(partition, machine.handle(request, context, now), now, context.waiter)
        except Exception as problem:  # noqa: BLE001 - the daemon survives a failure of one partition's machine
            return self.on_internal_error(partition, problem, request, context.api_version)
        assert reply is not BLOCKED, f"{type(request)} is answered at once"
        return reply

    def try_heartbeat(
        self: "Runtime[B]",
        partition: CoordinatorPartition[B],
        request: Any,
        context: Context,
        *,
        waits_for_log: bool,
    ) -> object | None:
        """Return the answer to a heartbeat that changes nothing else, at the arrival time of the current request.
        Return None, without an effect, if the heartbeat needs the whole path.

        Args:
            partition: The partition of the group.
            request: The heartbeat.
            context: Context of the request.
            waits_for_log: Whether the answer waits for the log, as in `execute_request`.
        """
        machine = partition.machine
        if machine is None or (waits_for_log and not partition.is_caught_up):
            return None
        return machine.try_heartbeat(request, context, self._clock.at_request().monotonic_ms)

    def prepare_repeated_heartbeat(
        self: "Runtime[B]",
        partition: CoordinatorPartition[B],
        request: Any,
        context: Context,
        response: object,
        *,
        waits_for_log: bool,
    ) -> Callable[..., object | None]:
        """Prepare the fast path of a heartbeat that the client is likely to repeat unchanged.

        Return a function of the arrival time of the repetition, in monotonic milliseconds of the process. It
        returns `response` while that still answers the heartbeat, else None. It ignores further arguments.

        Args:
            partition: The partition of the group.
            request: The heartbeat.
            context: Context of the request.
            response: The response to the first heartbeat.
            waits_for_log: Whether the answer waits for the log, as in `execute_request`.
        """
        to_group_ms = self._clock.to_group_ms

        def try_repeat(process_ms: int, *_: object) -> object | None:
            machine = partition.machine
            if machine is None or (waits_for_log and not partition.is_caught_up):
                return None
            if machine.try_heartbeat(request, context, to_group_ms(process_ms)) == response:
                return response
            return None

        return try_repeat

    def notify_all(self, request: object) -> None:
        """Pass a request without a caller to every partition."""
        for partition in self.partitions:
            self.notify_partition(partition, request)

    def receive_message(self, key: str, request: object) -> None:
        """Pass a message of another machine to the partition of its key."""
        self.notify_partition(self.find_partition(key), request)

    def notify_partition(self, partition: CoordinatorPartition[M], request: object) -> None:
        """Pass a request without a caller to an OWNED partition. A partition that is loading or read-only gets it
        later, when it is in service; other partitions never get it.
        """
        if partition.state is PartitionState.OWNED:
            self._execute_notification(partition, request)
        elif partition.state in (PartitionState.LOADING, PartitionState.READ_ONLY):
            partition.missed_notifications.append(request)

    def _execute_notification(self, partition: CoordinatorPartition[M], request: object) -> None:
        machine, now = partition.machine, self._clock.now()
        assert machine is not None, partition.name
        context = Context(_NO_WAITER, 0, "", "")
        try:
            self._apply_outcome(partition, machine.handle(request, context, now), now)
        except Exception as problem:  # noqa: BLE001 - the daemon survives a failure of one partition's machine
            self.on_internal_error(partition, problem)

    # Outcomes

    def _apply_outcome(
        self, partition: CoordinatorPartition[M], outcome: Outcome, now: Now, request_waiter: int = _NO_WAITER
    ) -> object | DeferredResponse:
        """Apply an outcome. Return the response to the request of `request_waiter`; BLOCKED without one."""
        if outcome.records or outcome.marker is not None:
            partition.buffer_outcome(outcome)
            if partition not in self._dirty:
                self.schedule_append(partition)
        if outcome.timers:
            self._apply_timers(partition, outcome.timers)
        if outcome.events:
            self._engine_context.notify_observers(partition, outcome.events, now)
        if outcome.messages:
            self._send_messages(partition, outcome.messages)
        if outcome.work:
            self._work_runner.start_work(partition, outcome.work)
        reply: object | DeferredResponse = BLOCKED
        for waiter, response in outcome.replies:
            if waiter == request_waiter:
                reply = response
            elif partition.position <= partition.confirmed_position:
                partition.send_answer(waiter, response)
            else:
                partition.gate.hold_answer(partition.position, waiter, response)
        return reply

    def _apply_timers(self, partition: CoordinatorPartition[M], timers: Mapping[Any, int | None]) -> None:
        for key, deadline_ms in timers.items():
            if deadline_ms is None:
                self._timers.cancel((partition.number, key))
            else:
                self._timers.set((partition.number, key), deadline_ms)

    def _send_messages(self, partition: CoordinatorPartition[M], messages: Sequence[Message]) -> None:
        """Queue messages. Like answers they leave in order, and only after the records before them are durable."""
        partition.queue_messages(messages)
        self._send_due_messages(partition)

    def _send_due_messages(self, partition: CoordinatorPartition[M]) -> None:
        for messages in partition.pop_due_messages():
            self._engine_context.loop.call_soon(self._engine_context.deliver_messages, messages)

    def _on_work_done(self, partition: CoordinatorPartition[M], machine: M, done: object) -> None:
        if partition.plain_machine is machine:
            self._execute_notification(partition, done)

    def _on_timer(self, timer: Any) -> None:
        number, key = timer
        self.fire_timer(self.partitions[number], key)

    def fire_timer(self, partition: CoordinatorPartition[M], key: Hashable) -> None:
        """Fire a timer of a machine, due or not. Without a machine this does nothing."""
        machine = partition.machine
        if machine is None:
            return
        now = self._clock.now()
        if partition.state is PartitionState.READ_ONLY:
            # A read-only partition expires no members and offsets, because it could not write that.
            self._timers.set((partition.number, key), now.monotonic_ms + round(RETRY_S * 1000))
            return
        started_ns = clock.monotonic_ns()
        try:
            outcome = machine.fire_timer(key, now)
            self._apply_outcome(partition, outcome, now)
            for on_timer_fired in self.timer_listeners:
                on_timer_fired(partition, key, outcome, clock.monotonic_ns() - started_ns)
        except Exception as problem:  # noqa: BLE001 - the daemon survives a failure of one partition's machine
            self.on_internal_error(partition, problem)

    # Appends

    def schedule_append(self, partition: CoordinatorPartition[M]) -> None:
        """Append the pending records of a partition at the end of this iteration. Later calls have no effect."""
        if not self._dirty:
            self._engine_context.loop.call_soon(self._end_iteration)
        self._dirty[partition] = None

    def _compose_append(self) -> None:
        self._append = self.append_interceptors.compose(CoordinatorPartition.append_buffered)

    def _end_iteration(self) -> None:
        dirty, self._dirty = self._dirty, {}
        wall_ms = clock.wall_ms()
        for partition in dirty:
            try:
                self._append_pending(partition, wall_ms)
            except Exception as problem:  # noqa: BLE001 - the other partitions still append
                self._engine_context.loop.call_soon(self.on_internal_error, partition, problem)
        self._durability.start_sync()

    def _append_pending(self, partition: CoordinatorPartition[M], wall_ms: int) -> None:
        """Append the pending records of a partition, and request a sync."""
        log = partition.log
        if log is None or not partition.pending_records:
            return
        try:
            is_rolled = self._append(partition, log, wall_ms)
        except (StorageError, OSError) as error:
            self.lifecycle.on_append_failed(partition, error)
            return
        except Exception as problem:  # noqa: BLE001 - the daemon survives a failure of one partition's machine
            self.on_internal_error(partition, problem)
            return
        if partition.pending_records:
            return  # an interceptor has postponed the append, and answers wait for it
        if is_rolled or self._is_flushed_always:
            self._durability.request_sync(log, self._on_synced)
        if not self._is_flushed_always:
            self._on_readable_advanced(partition)

    def sync_dirty(self, partitions: Iterable[CoordinatorPartition[M]]) -> None:
        """Request a sync of these partitions' logs, as far as they have unsynced records."""
        for partition in partitions:
            log = partition.log
            if log is not None and log.failure is None and log.is_dirty:
                self._durability.request_sync(log, self._on_synced)
        self._durability.start_sync()

    def _on_synced(self, log: PartitionLog, error: StorageError | None) -> None:
        partition = self._served_by_log.get(log)
        if partition is None:
            return
        if error is not None:
            self.lifecycle.on_append_failed(partition, error)
        elif self._is_flushed_always:
            try:
                self._on_readable_advanced(partition)
            except Exception as problem:  # noqa: BLE001 - the reload answers the remaining waiters
                self.on_internal_error(partition, problem)

    def _on_readable_advanced(self, partition: CoordinatorPartition[M]) -> None:
        partition.release_answers()
        if partition.outbound:
            self._send_due_messages(partition)
        if partition.refused_appends:
            self.lifecycle.on_append_succeeded(partition)
        for on_readable_advanced in self.readable_listeners:
            on_readable_advanced(partition.number)

    def on_internal_error(
        self,
        partition: CoordinatorPartition[M],
        problem: Exception,
        request: object = None,
        api_version: int = -1,
    ) -> object:
        """Reload a partition after an unexpected exception of its machine: its memory is not reliable any more.

        Return the error response to the request; None without a request.
        """
        self._log.error(
            "Unloading %s of %s after an internal error",
            self.topic.contents_label,
            partition.name,
            exc_info=problem,
        )
        self.lifecycle.reload_partition(partition)
        if request is None:
            return None
        return self.topic.build_error_response(request, api_version, ErrorCode.UNKNOWN_SERVER_ERROR)

    # Service

    def on_service_started(self, partition: CoordinatorPartition[Any], outcome: Outcome, now: Now) -> None:
        """Apply the first outcome of a machine, and the notifications that it has missed."""
        self._apply_outcome(partition, outcome, now)
        if self._is_flushed_always:
            self.sync_dirty([partition])
        while partition.missed_notifications and partition.state is PartitionState.OWNED:
            self._execute_notification(partition, partition.missed_notifications.pop(0))

    def on_service_ended(self, partition: CoordinatorPartition[Any]) -> None:
        """Cancel the timers of an unloaded machine, and notify the listeners."""
        self._timers.cancel_where(lambda key: isinstance(key, tuple) and key[0] == partition.number)
        for on_unloaded in self.unload_listeners:
            on_unloaded(partition)

    def list_failed_partitions(self) -> list[TopicPartition]:
        """Return the partitions that failed to load."""
        return [part.name for part in self.partitions if part.state is PartitionState.FAILED]

    def shut_down(self) -> None:
        """Append the pending records, and stop loads, timers and delegated work."""
        self._end_iteration()
        self.is_shut_down = True
        self.lifecycle.stop()
        self._timers.close()
        self._work_runner.close()

    def abandon(self) -> None:
        """Stop at once without writing anything, as in a crash."""
        self.is_shut_down = True
        self.lifecycle.stop()
        self._timers.close()
        self._work_runner.close()
        self.lifecycle.states.abandon()

    def stop_listening(self) -> None:
        """Remove this runtime from the flusher, which continues for others."""
        self._durability.remove_listener(self._on_synced)

    def fail_waiters(self) -> None:
        """Answer every BLOCKED request with NOT_COORDINATOR."""
        self.lifecycle.end_services()
