"""One partition of an internal topic, its machine, its log and the gate of its answers, and the context that
all partitions of an engine share.

A machine delegates work that it cannot do itself, such as a large computation, to `WorkRunner`, which gives
it the result as a request. Source: the context of Kafka's `CoordinatorRuntime`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final, Generic, NamedTuple

from msgspec import Struct

from coordinator.core import clock
from coordinator.core.daemon_log import OngoingFailures
from coordinator.core.interceptors import InterceptorChain
from coordinator.core.outcome import EncodedFact, Message, Now, Outcome, Work, WorkDone
from coordinator.core.reply import Reply
from coordinator.core.shared_types import LogFlush
from coordinator.core.wire_name import error_text
from coordinator.runtime.flusher import Flusher
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_lifecycle import PartitionLifecycle, PartitionState
from coordinator.runtime.partition_loader import LoadQueue
from coordinator.runtime.producer_batch import (
    BASE_SEQUENCE,
    AppendTarget,
    ProducerBatch,
    build_transactional_header,
)
from coordinator.runtime.timers import GroupClock
from protocol.error_codes import ErrorCode
from storage.batch import encode_key_value_batch
from storage.files import Files
from storage.log import PartitionLog
from storage.producers.producer_state import ProducerState, VerificationStateEntry
from storage.producers.producer_state_manager import ProducerStateManager
from storage.topic_partition import TopicPartition

MAX_BATCH_BYTES: Final = 1024 * 1024
"""Maximum bytes of keys and values in a batch. The records of one outcome stay together even above it."""

_LOG: Final = logging.getLogger("Engine")


class WaitingReply(Struct):
    """The reply of a request. Its response waits for the log or for other members."""

    reply: Reply
    request: object
    """The request; it gets an error response when the partition is unloaded."""
    api_version: int


class LoadedMachine(NamedTuple, Generic[M]):
    """The machine at the end of a load, before it is in service."""

    intercepted: M
    """The machine with its interceptors."""
    plain: M
    producers: ProducerStateManager
    durable_end: int
    """The end offset of a load of the durable part of the log. It is 0 for a load of the whole log."""
    outcome: Outcome
    """The first outcome of the machine, and the time of that outcome."""
    now: Now


class CoordinatorPartition(PartitionLifecycle, Generic[M]):
    """A partition: its life cycle, its machine, its log, and the answers and messages that wait for the log. All
    methods belong to the event loop's thread."""

    __slots__ = (
        "_batch",
        "_batch_bytes",
        "_build_error_response",
        "_compression",
        "_encode",
        "_ended_batches",
        "_expected_producers",
        "_is_flushed_always",
        "durable_end",
        "gate",
        "interceptors",
        "log",
        "machine",
        "missed_notifications",
        "name",
        "number",
        "outbound",
        "pending_records",
        "plain_machine",
        "producers",
        "waiting",
    )

    def __init__(self, topic: InternalTopic[M], number: int) -> None:
        super().__init__()
        self.name = TopicPartition(topic.name, number)
        self.number = number
        self.machine: M | None = None
        """The machine with its interceptors; None unless the partition is OWNED or READ_ONLY."""
        self.plain_machine: M | None = None
        """The machine without interceptors."""
        self.interceptors: InterceptorChain[M] = InterceptorChain(self._rebuild_machine)
        """Interceptors of the calls of this machine and of every later one."""
        self.log: PartitionLog | None = None
        self.producers: ProducerStateManager | None = None
        """Transactional producers of the log. Present together with the machine."""
        self.durable_end = 0
        """The end offset of the loaded durable part of a READ_ONLY partition during the reopening of its log
        (`log` is None); otherwise 0."""
        self.gate = Gate()
        self.waiting: dict[int, WaitingReply] = {}
        """The replies of requests without a response, by waiter. The waiter is the number of the request in an
        `Outcome`."""
        self.pending_records = 0
        self.missed_notifications: list[object] = []
        """Notifications to all partitions that arrived while this one was loading or not writable."""
        self.outbound: deque[tuple[int, Sequence[Message]]] = deque()
        """Messages to other machines, each with the position that must be readable before they leave."""
        self._batch: list[EncodedFact] = []
        """The records of the last batch of this iteration."""
        self._batch_bytes = 0
        """The size of the keys and values of the last batch in bytes."""
        self._ended_batches: list[list[EncodedFact] | ProducerBatch] = []
        """The earlier batches of this iteration."""
        self._expected_producers: ProducerState | None = None
        """The producers of the log after the append of all pending batches, including transactions that wait for
        verification.
        """
        self._encode = topic.codec.encoder()
        self._is_flushed_always = topic.flush is LogFlush.ALWAYS
        self._compression = topic.compression
        self._build_error_response = topic.build_error_response

    def attach_log(self, log: PartitionLog) -> None:
        """Use a log that was opened for the partition."""
        self.log = log

    def detach_log(self) -> PartitionLog | None:
        """Stop using the log, and return it; the caller must close it. None without a log."""
        log, self.log = self.log, None
        return log

    def install_machine(self, loaded: LoadedMachine[M]) -> None:
        """Put a loaded machine into service."""
        assert self.machine is None, self.name
        assert self.is_serving, (self.name, self.stage)
        self.machine, self.plain_machine = loaded.intercepted, loaded.plain
        self.durable_end = loaded.durable_end
        self.set_producers(loaded.producers)

    def _rebuild_machine(self) -> None:
        if self.plain_machine is not None:
            self.machine = self.interceptors.compose(self.plain_machine)

    @property
    def readable_offset(self) -> int:
        """The offset up to which answers and consumers may read."""
        log = self.log
        if log is None:
            return self.durable_end
        return log.durability.durable_offset if self._is_flushed_always else log.log_end_offset

    confirmed_position = readable_offset
    """The position up to which answers may be sent."""

    @property
    def end_offset(self) -> int:
        """The end offset that the log has after the append of this iteration's records."""
        end_offset = self.durable_end if self.log is None else self.log.log_end_offset
        return end_offset + self.pending_records

    position = end_offset
    """The position that an answer of this iteration waits for. Positions never decrease."""

    @property
    def is_caught_up(self) -> bool:
        """Whether the partition accepts records and all of them are readable."""
        if self.state is not PartitionState.OWNED or self.pending_records:
            return False
        return self.end_offset <= self.readable_offset

    def buffer_outcome(self, outcome: Outcome) -> None:
        """Keep the records or the marker of an outcome for the end of the iteration."""
        unit: list[EncodedFact] = []
        size = 0
        for fact in outcome.records:
            encoded = self._encode(fact)
            key, value = encoded
            size += len(key) + (len(value) if value else 0)
            unit.append(encoded)
        if outcome.in_transaction is not None or outcome.marker is not None:
            self._buffer_producer_batch(outcome, unit)
            return
        if self._batch_bytes + size > MAX_BATCH_BYTES:
            self._end_batch()
        self._batch += unit
        self._batch_bytes += size
        self.pending_records += len(unit)

    def _end_batch(self) -> None:
        """Begin another batch for the records that follow."""
        if self._batch:
            self._ended_batches.append(self._batch)
            self._batch, self._batch_bytes = [], 0

    def _buffer_producer_batch(self, outcome: Outcome, unit: list[EncodedFact]) -> None:
        wall_ms = clock.wall_ms()
        if outcome.marker is not None:
            assert not unit, "a marker is a batch of its own"
            batch = ProducerBatch.from_marker(outcome.marker, wall_ms)
        else:
            assert outcome.in_transaction is not None
            batch = ProducerBatch.from_transaction(unit, outcome.in_transaction, wall_ms)
        batch.apply_to_expected(self.expected_producers, self.end_offset)
        self._end_batch()
        self._ended_batches.append(batch)
        self.pending_records += batch.header.records_count

    def append_buffered(self, log: AppendTarget, wall_ms: int) -> bool:
        """Append this iteration's records with their timestamp. Return whether this rolled a segment.

        Args:
            log: The log of the partition, or a target in its place.
            wall_ms: Unix time in milliseconds.

        Raises:
            StorageError, OSError: The append failed; the partition must be reloaded.
        """
        batch, ended_batches = self._batch, self._ended_batches
        self._batch, self._batch_bytes, self.pending_records = [], 0, 0
        if not ended_batches:
            return bool(batch) and self._append(log, batch, wall_ms)
        is_rolled = False
        self._ended_batches = []
        for ended_batch in ended_batches:
            if isinstance(ended_batch, ProducerBatch):
                is_rolled |= self._append_producer_batch(log, ended_batch)
            else:
                is_rolled |= self._append(log, ended_batch, wall_ms)
        if batch:
            is_rolled |= self._append(log, batch, wall_ms)
        return is_rolled

    def _append_producer_batch(self, log: AppendTarget, batch: ProducerBatch) -> bool:
        producers = self.producers
        assert producers is not None, self.name
        is_rolled = batch.append(log, producers, self._compression)
        producers.find_last_stable_offset(self.readable_offset)  # removes transactions that ended before
        return is_rolled

    def _append(self, log: AppendTarget, batch: Sequence[EncodedFact], wall_ms: int) -> bool:
        data = encode_key_value_batch(
            batch,
            wall_ms,
            log.log_end_offset,
            log.leader_epochs.current,
            base_sequence=BASE_SEQUENCE,
            attributes=self._compression,
        )
        return log.append_encoded(data, len(batch), wall_ms)

    # Producers

    def set_producers(self, producers: ProducerStateManager | None) -> None:
        """Set the producers that a load found in the log; None when the partition is unloaded."""
        self.producers = producers
        self._expected_producers = None if producers is None else producers.state.copy()

    @property
    def expected_producers(self) -> ProducerState:
        """The producers of a loaded partition, including the pending batches of this iteration. New batches are
        checked against them, and they know the transactions that wait for verification.
        """
        assert self._expected_producers is not None, self.name
        return self._expected_producers

    @property
    def last_stable_offset(self) -> int:
        """Offset up to which consumers with `read_committed` may read."""
        readable_offset = self.readable_offset
        return (
            readable_offset
            if self.producers is None
            else self.producers.find_last_stable_offset(readable_offset)
        )

    @property
    def has_open_transactions(self) -> bool:
        """Whether the partition has a transaction without an end, even if all of its records were removed."""
        machine, expected = self.machine, self._expected_producers
        has_pending = machine is not None and machine.has_open_transactions
        return has_pending or (expected is not None and bool(expected.open_transactions))

    def needs_verification(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether records of a producer would begin a transaction here. Raises InvalidProducerEpoch."""
        return self.expected_producers.needs_verification(
            build_transactional_header(producer_id, producer_epoch)
        )

    def verify(
        self, producer_id: int, producer_epoch: int, now_ms: int, *, adds: bool
    ) -> VerificationStateEntry:
        """Begin the verification of a transaction and return its entry, which the caller passes to
        `check_producer`. See `ProducerState.begin_verification`.
        """
        return self.expected_producers.begin_verification(
            build_transactional_header(producer_id, producer_epoch), now_ms, adds_partition=adds
        )

    def check_producer(
        self,
        producer_id: int,
        producer_epoch: int,
        verification: VerificationStateEntry | None,
        *,
        is_verified: bool = True,
    ) -> None:
        """Check that records of a producer's transaction may be written.

        Args:
            producer_id: Id of the producer.
            producer_epoch: Epoch of the producer.
            verification: Entry of `verify`; None without one.
            is_verified: Whether the start of a transaction needs a verification.

        Raises:
            InvalidProducerEpoch: The epoch is fenced.
            InvalidTransactionState: The transaction is not verified.
        """
        header = build_transactional_header(producer_id, producer_epoch)
        self.expected_producers.check_batch(header, verification, is_verified=is_verified, is_sequenced=False)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> bool:
        """Return whether a marker repeats an earlier one, in which case it is written again. Raises
        InvalidProducerEpoch, CoordinatorFenced.
        """
        return self.expected_producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )

    def expire_producers(self, now_ms: int) -> None:
        """Remove producers that are idle by the wall clock and have no open transaction."""
        if self.producers is not None:
            self.producers.state.expire(now_ms)
            self.expected_producers.expire(now_ms)

    # Waiting

    def release_answers(self) -> None:
        """Send the answers up to the position that the log has reached."""
        waiting = self.waiting
        for _, waiter, response in self.gate.release_answers(self.confirmed_position):
            entry = waiting.pop(waiter, None)
            if entry is not None:
                entry.reply.send(response)

    def send_answer(self, waiter: int, response: object) -> None:
        """Send an answer, if its request still waits."""
        entry = self.waiting.pop(waiter, None)
        if entry is not None:
            entry.reply.send(response)

    def queue_messages(self, messages: Sequence[Message]) -> None:
        """Keep messages of this iteration until the records before them are readable."""
        self.outbound.append((self.position, messages))

    def pop_due_messages(self) -> Iterator[Sequence[Message]]:
        """Remove and yield the messages that may be sent now, in order."""
        outbound = self.outbound
        while outbound and outbound[0][0] <= self.confirmed_position:
            yield outbound.popleft()[1]

    def close_machine(self, error: ErrorCode) -> None:
        """Take the machine out of service and answer its waiting requests with `error`. Unsent messages are
        dropped: the machine sends them again after its next load.

        If the machine's `unload` raises, the machine is gone and its requests still wait.
        """
        machine, self.machine, self.plain_machine = self.machine, None, None
        self.set_producers(None)
        self._batch, self._batch_bytes, self.pending_records = [], 0, 0
        self._ended_batches = []
        self.durable_end = 0
        self.gate.clear()
        self.outbound.clear()
        answers: dict[int, Any] = {}
        if machine is not None and error is ErrorCode.NOT_COORDINATOR:
            answers = dict(machine.unload())
        for waiter in list(self.waiting):
            entry = self.waiting.pop(waiter, None)
            if entry is None:
                continue
            response = answers.get(waiter)
            if response is None:
                response = self._build_error_response(entry.request, entry.api_version, error)
            entry.reply.send(response)


class Gate:
    """The held answers of one partition."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: deque[tuple[int, int, object]] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def hold_answer(self, position: int, waiter: int, response: object) -> None:
        """Keep an answer until the log is durable up to `position`, an end offset."""
        assert not self._held or position >= self._held[-1][0], (position, self._held[-1])
        self._held.append((position, waiter, response))

    def release_answers(self, durable_offset: int) -> Iterable[tuple[int, int, object]]:
        """Remove and yield (position, waiter, response) of each answer up to the position `durable_offset`."""
        held = self._held
        if held and held[-1][0] <= durable_offset:  # nearly always
            self._held = deque()
            return held
        released: list[tuple[int, int, object]] = []
        while held and held[0][0] <= durable_offset:
            released.append(held.popleft())
        return released

    def clear(self) -> None:
        """Drop all held answers. The caller answers their requests itself."""
        self._held.clear()


Observer = Callable[[CoordinatorPartition[Any], Sequence[Any], int, Now], None]
"""Takes events of a partition in order, the number of the first event, and their time. Numbers increase
without gaps from the start of the process, over all partitions and topics."""


class EngineContext:
    """Shared state of all partitions of an engine."""

    __slots__ = (
        "_event_number",
        "deliver_messages",
        "failures",
        "files",
        "flusher",
        "group_clock",
        "load_queue",
        "loop",
        "next_waiter",
        "observers",
        "workers",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        flusher: Flusher,
        files: Files,
        group_clock: GroupClock,
        failures: OngoingFailures,
        load_queue: LoadQueue,
        deliver_messages: Callable[[Sequence[Message]], None],
    ) -> None:
        self.loop = loop
        self.flusher = flusher
        self.files = files
        self.group_clock = group_clock
        self.failures = failures
        """The ongoing failures of the disk, over all partitions."""
        self.load_queue = load_queue
        self.deliver_messages = deliver_messages
        """Takes messages to other machines once they are durable at their origin."""
        self.observers: list[Observer] = []
        self.workers: dict[str, Callable[[Any], Awaitable[object]]] = {}
        self.next_waiter: Callable[[], int] = count(1).__next__
        """Returns a new waiter number."""
        self._event_number = 0

    def notify_observers(self, partition: CoordinatorPartition[Any], events: Sequence[Any], now: Now) -> None:
        """Notify every observer. The failure of one observer does not affect the others or later events."""
        first = self._event_number
        self._event_number += len(events)
        for observe in self.observers:
            try:
                observe(partition, events, first, now)
            except Exception as problem:  # noqa: BLE001 - a failing observer must not affect the partition
                name = getattr(observe, "__qualname__", repr(observe))
                _LOG.error("%s failed to handle events of %s", name, partition.name, exc_info=problem)


class WorkRunner:
    """Runs the delegated work of machines. `on_done` takes the partition, the delegating machine and the result."""

    def __init__(
        self,
        engine_context: EngineContext,
        on_done: Callable[[CoordinatorPartition[Any], Any, WorkDone], None],
    ) -> None:
        self._engine_context = engine_context
        self._on_done = on_done
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Cancel all running work. The machines get no result."""
        for task in self._tasks:
            task.cancel()

    def start_work(self, partition: CoordinatorPartition[Any], works: Sequence[Work]) -> None:
        """Start the work that a machine delegates."""
        for work in works:
            task = self._engine_context.loop.create_task(self._run(partition, partition.plain_machine, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, partition: CoordinatorPartition[Any], machine: object, work: Work) -> None:
        try:
            done = WorkDone(work, await self._engine_context.workers[work.name](work.argument))
        except Exception as problem:  # noqa: BLE001 - the machine gets the error and decides
            done = WorkDone(work, None, error_text(problem))
        self._on_done(partition, machine, done)
