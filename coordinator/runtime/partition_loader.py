"""Loads partitions of internal topics into their machines: newest values, open transactions, a new leader epoch.

`LoadQueue` has a thread open the logs. The event loop then reads them in slices, the smallest log first.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from heapq import heapify, heappush
from struct import Struct
from typing import Final, Generic

from coordinator.core import clock
from coordinator.core.open_transaction_records import OpenTransactions
from coordinator.core.outcome import NO_PRODUCER_ID
from coordinator.core.time_budget import SLICE_NS
from coordinator.runtime.machine import DAY_MS, M, RecordCodec
from coordinator.runtime.worker_threads import ExecutorShare
from protocol.primitives import Malformed
from storage.files import Files
from storage.key_value_reader import KeyValuePair, KeyValueRun, read_key_values
from storage.log import PartitionLog
from storage.producers.end_transaction_marker import COMMIT, parse_marker_type
from storage.producers.producer_state_manager import ProducerStateManager
from storage.record import Record
from storage.state_file import find_state
from storage.storage_errors import CorruptBatch, DamagedFile, LogDamaged
from storage.stored_batch import StoredBatch

RECORDS_PER_STEP: Final = 500
OFFSETS_PER_STEP: Final = 5000
"""The number of offsets in one step over batches that are read only for their producers."""

_LOG: Final = logging.getLogger("LoadQueue")
_INT16: Final = Struct(">h")


class LoadFailed(Exception):
    """A record of a known type has an invalid value."""


class MissingKey(Exception):
    """A record without a key, which no machine writes."""


class PartitionLoad(Generic[M]):
    """The load of one log into one machine, from the newest state file or from the start."""

    def __init__(
        self,
        log: PartitionLog,
        machine: M,
        files: Files,
        codec: RecordCodec,
        end_offset: int | None = None,
        *,
        producer_expiration_ms: int = DAY_MS,
    ) -> None:
        """Create a load.

        Args:
            log: The log.
            machine: An empty machine.
            files: File system of the state files.
            codec: Codec of the records.
            end_offset: End of a batch at which to stop; None for the end of the log.
            producer_expiration_ms: Idle time after which a producer is removed.
        """
        self._log = log
        self._end_offset = end_offset
        self.machine = machine
        self._files = files
        self._codec = codec
        self._newest = NewestValues(codec)
        self._open: OpenTransactions[bytes, bytes] = OpenTransactions()
        self._next_step = RECORDS_PER_STEP
        self.producers = ProducerStateManager(log, producer_expiration_ms)
        """Transactional producers, from the snapshot next to the log and from the log itself. No transaction spans
        the end of a state file.
        """
        self.records = 0
        """Number of records so far, including the ones of the state file."""
        self.warnings: list[str] = []
        """Warnings for the log."""
        self.state_end_offset = 0
        """End offset of the used state file; 0 without one."""

    def run_steps(self) -> Iterator[int]:
        """Read all records, and yield their number so far from time to time.

        Raises:
            LogDamaged: The log is damaged.
            LoadFailed: A record is invalid.
            OSError: The disk failed.
        """
        yield from self._read_state()
        if self._end_offset is None:
            yield from self._begin_producers()
        yield from self._read_log()
        if self._end_offset is None:
            self.producers.finish_load()
        for kind in self._newest.unknown_types:
            self.warnings.append(
                f"Unknown record type {kind} while loading metadata from {self._log.directory}: ignored"
            )
        for number, (key, value, producer_id) in enumerate(self._iterate_remaining(), 1):
            self._replay(key, value, producer_id)
            if number % RECORDS_PER_STEP == 0:
                yield self.records
        yield self.records

    def _iterate_remaining(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield keys and values, with the producer of an open transaction. A later value of a key is newer."""
        pending = list(self._open.iterate_pending())
        for producer_id, key, value, is_superseded in pending:
            if is_superseded:
                yield key, value, producer_id
        for key, value in self._newest.items():
            yield key, value, NO_PRODUCER_ID
        for producer_id, key, value, is_superseded in pending:
            if not is_superseded:
                yield key, value, producer_id

    def _replay(self, key: bytes, value: bytes, producer_id: int) -> None:
        try:
            fact = self._codec.decode(key, value)
        except Malformed as error:
            raise LoadFailed(f"{self._log.directory}: the value of {key!r}: {error}") from error
        self.machine.replay(fact, producer_id)

    def _read_state(self) -> Iterator[int]:
        state, ignored = find_state(self._files, self._log, self._codec.contents)
        if state is not None and self._end_offset is not None and state.end_offset > self._end_offset:
            raise LoadFailed(f"{state.path}: ends after offset {self._end_offset}")
        if state is not None:
            try:
                for records in state.iterate_batches():
                    self._newest.apply_records(_pairs(records))
                    self.records += len(records)
                    yield self.records
                self.state_end_offset = state.end_offset
            except (DamagedFile, Malformed, MissingKey) as error:
                ignored.append(str(error))
                self._newest = NewestValues(self._codec)
                self.records = 0
        for line in ignored:
            self.warnings.append(f"Ignored a state file: {line}")

    def _begin_producers(self) -> Iterator[int]:
        """Load the producers up to the end of the state file; their snapshot may be older than it."""
        known_to = self.producers.begin_load()
        for offset in range(known_to, self.state_end_offset, OFFSETS_PER_STEP):
            self.producers.catch_up(offset)
            yield self.records
        self.producers.catch_up(self.state_end_offset)

    def _read_log(self) -> Iterator[int]:
        from_offset = self.state_end_offset or self._log.log_start_offset
        for part in read_key_values(self._log, from_offset, self._end_offset):
            try:
                if isinstance(part, KeyValueRun):
                    assert not self._open
                    self._newest.apply_records(part.pairs)
                    self.records += len(part.pairs)
                else:
                    self._apply_batch(part)
                    self.records += part.header.records_count
            except CorruptBatch as error:
                raise LogDamaged(part.path, error.reason, part.position) from error
            except (Malformed, MissingKey) as error:
                raise LoadFailed(f"{part.path}: from byte {part.position} on: {error}") from error
            if self.records >= self._next_step:
                self._next_step = self.records + RECORDS_PER_STEP
                yield self.records

    def _apply_batch(self, batch: StoredBatch) -> None:
        """Apply a batch. A batch that compaction has emptied begins no transaction, because its end marker may be
        gone. Raises CorruptBatch, Malformed, MissingKey.
        """
        self.producers.feed_batch(batch)
        header, records = batch.header, batch.records()
        if header.is_control:
            for record in records:
                kind = parse_marker_type(record)
                if kind is not None:
                    ended = self._open.end_transaction(header.producer_id, is_committed=kind == COMMIT)
                    self._newest.apply_records(ended.committed)
        elif header.is_transactional:
            for record in records:
                self._apply_pending(record, header.producer_id)
        else:
            if self._open:
                self._supersede_pending(records)
            self._newest.apply_records(_pairs(records))

    def _apply_pending(self, record: Record, producer_id: int) -> None:
        key = self._newest.canonical_key(record.key)
        if key is not None and record.value is not None:
            self._open.add_record(producer_id, key, record.value)
        elif key is not None:
            # No known client writes a transactional tombstone. Kafka removes the value at once.
            self._open.remove_key(key)
            self._newest.apply_records([(key, None)])

    def _supersede_pending(self, records: list[Record]) -> None:
        for record in records:
            key = self._newest.canonical_key(record.key)
            if key is not None and record.value is None:
                self._open.remove_key(key)
            elif key is not None:
                self._open.supersede(key)


def _pairs(records: Iterable[Record]) -> Iterator[KeyValuePair]:
    return ((record.key, record.value) for record in records)


class NewestValues:
    """The newest values of one partition's log by key, as bytes. A tombstone removes its key."""

    __slots__ = ("_codec", "_values", "unknown_types")

    def __init__(self, codec: RecordCodec) -> None:
        self._codec = codec
        self._values: dict[bytes, bytes] = {}
        self.unknown_types: dict[int, None] = {}
        """Types of keys that belong to no machine of this topic. Their records stay in the log."""

    def __len__(self) -> int:
        return len(self._values)

    def apply_records(self, pairs: Iterable[KeyValuePair]) -> None:
        """Apply records in the order of the log. Raises MissingKey; Malformed for a key of a known type."""
        values = self._values
        for key, value in pairs:
            if key in values:
                if value is None:
                    del values[key]
                else:
                    values[key] = value
            else:
                self._apply_other(key, value)

    def _apply_other(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record with a new key, or with another form of a known one."""
        canonical = self.canonical_key(key)
        if canonical is None:
            return
        if value is not None:
            self._values[canonical] = value
        else:
            self._values.pop(canonical, None)

    def canonical_key(self, key: bytes | None) -> bytes | None:
        """Return the canonical form of a record's key. Return None, and note the type, for a key of another
        machine. Raises MissingKey; Malformed for a key of a known type.
        """
        if key is None:
            raise MissingKey("a record has no key")
        if key in self._values:
            return key
        canonical = self._codec.canonical_key(key)
        if canonical is None:
            # Every key of an internal topic begins with its type.
            self.unknown_types[_INT16.unpack_from(key)[0]] = None
        return canonical

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over keys and values, in the order of the keys' first insertion."""
        return iter(self._values.items())


def begin_leader_epoch(log: PartitionLog) -> None:
    """Begin a leader epoch at the end of a log, durably, unless the current epoch has no records.

    It blocks, and is safe in a thread while no other thread appends. The new epoch is greater than the epoch of
    the last batch, because a killed broker may have left an empty checkpoint. On an error the log keeps its
    epoch.

    Raises:
        LogDamaged: The last batch is not readable.
        OSError: The checkpoint could not be written.
    """
    written = -1
    if log.log_end_offset > log.log_start_offset:
        for batch in log.iterate_batches(log.log_end_offset - 1):
            written = batch.header.partition_leader_epoch
    epochs = log.leader_epochs.with_next_epoch(log.log_end_offset, above=written)
    if epochs is not log.leader_epochs:
        log.replace_leader_epochs(epochs)


Opening = Future[PartitionLog]
ReadLog = Callable[[Opening], Iterator[object]]
"""Takes an opened log, or the error of the attempt. Returns the steps that read it."""


class LoadQueue:
    """Opens logs in a thread and reads them on the event loop. All methods belong to the event loop's thread.

    Reading has a slice of `SLICE_NS` in each iteration of the loop, outside the run queue. In the run queue each
    waiting request would have a slice before it, so a broker that restarts under load would load for minutes.
    Meanwhile its groups have no coordinator, and clients repeat their requests. The steps are an iterator because
    the queue changes to another log between two steps: a small log overtakes a large one.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, opener: Executor, on_empty: Callable[[], None]
    ) -> None:
        """Create a queue.

        Args:
            loop: The event loop.
            opener: Executor that opens logs.
            on_empty: Called each time that all added logs are loaded.
        """
        self._loop = loop
        self._on_empty = on_empty
        self._opener = ExecutorShare(opener)
        self._opening = 0
        self._reading: list[tuple[int, int, Iterator[object]]] = []
        self._added = 0
        self._is_stopped = False

    def add_log(self, open_log: Callable[[], PartitionLog], read: ReadLog) -> None:
        """Open a log in the thread, then read it."""
        if self._is_stopped:
            return
        self._opening += 1
        try:
            future: Opening = self._opener.submit(open_log)
        except Exception as problem:  # noqa: BLE001 - the reader handles it, for example when no thread can start
            future = Future()
            future.set_exception(problem)
        future.add_done_callback(partial(self._on_opened_in_thread, read))

    def _on_opened_in_thread(self, read: ReadLog, future: Opening) -> None:
        self._loop.call_soon_threadsafe(self._on_opened, read, future)

    def _on_opened(self, read: ReadLog, future: Opening) -> None:
        self._opening -= 1
        try:
            log = None if future.exception() is not None else future.result()
        except CancelledError:
            return
        if self._is_stopped:
            if log is not None:
                log.close(clean=False)
            return
        if not self._reading:
            self._loop.call_soon(self._run_slice)
        self._added += 1
        heappush(self._reading, (0 if log is None else log.size_bytes, self._added, read(future)))

    def _run_slice(self) -> None:
        started_ns = clock.monotonic_ns()
        while self._reading and clock.monotonic_ns() - started_ns < SLICE_NS:
            steps = self._reading[0][2]
            try:
                next(steps)
            except StopIteration:
                self._remove(steps)
            except Exception as problem:  # noqa: BLE001 - the queue continues with the other logs
                _LOG.error("Failed to read a log", exc_info=problem)
                self._remove(steps)
        if self._reading:
            self._loop.call_soon(self._run_slice)
        elif not self._opening and not self._is_stopped:
            self._on_empty()

    def _remove(self, steps: Iterator[object]) -> None:
        # The step may have added a smaller log, which is now first.
        self._reading = [entry for entry in self._reading if entry[2] is not steps]
        heapify(self._reading)

    async def stop(self) -> None:
        """Wait for the log that is being opened. Do not open or read the others."""
        self._is_stopped = True
        self._reading.clear()
        going_on = [asyncio.wrap_future(future, loop=self._loop) for future in self._opener.cancel()]
        await asyncio.gather(*going_on, return_exceptions=True)

    def abandon(self) -> None:
        """Stop at once, as in a crash."""
        self._is_stopped = True
        self._reading.clear()
        self._opener.cancel()
