"""Reading a partition of an internal topic back into its machine, a slice at a time.

What is read comes together as bytes, from a state file and the log after it, or from the whole log. Only what is
left of it then is decoded and replayed: the newest value of each key, and what belongs to transactions that are
still open at the end of the log.

Source: Kafka's `CoordinatorLoaderImpl`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from coordinator.engine.machine import DAY_MS, Codec, Machine
from coordinator.engine.newest_values import MissingKey, NewestValues
from coordinator.machine.open_transactions import OpenTransactions
from coordinator.machine.outcome import NO_PRODUCER_ID
from protocol.malformed import Malformed
from storage.errors import CorruptBatch, DamagedFile, LogDamaged
from storage.files import Files
from storage.log import PartitionLog
from storage.pairs import Pair, PlainRun, walk_pairs
from storage.producers.log_producers import LogProducers
from storage.producers.marker import COMMIT, end_of_transaction
from storage.record import Record
from storage.state_file import find_state
from storage.stored_batch import StoredBatch

RECORDS_IN_A_STEP: Final = 500
OFFSETS_IN_A_STEP: Final = 5000
"""Of batches that are only looked at for their producers."""


class LoadFailed(Exception):
    """A record that is of a known kind and makes no sense."""


class Load:
    """One reading of one log into one machine, from the newest state beside it, or from the start."""

    def __init__(
        self,
        log: PartitionLog,
        machine: Machine,
        files: Files,
        codec: Codec,
        end_offset: int | None = None,
        *,
        producer_expiration_ms: int = DAY_MS,
    ) -> None:
        """In: where a batch ends, and the reading, unless that is where the log ends; after how long without a
        record a producer is forgotten."""
        self._log = log
        self._end_offset = end_offset
        self._machine = machine
        self._files = files
        self._codec = codec
        self._newest = NewestValues(codec)
        self._open: OpenTransactions[bytes, bytes] = OpenTransactions()
        self._next_step = RECORDS_IN_A_STEP
        self.producers = LogProducers(log, producer_expiration_ms)
        """Who has written transactions: of what was read of the log, and what is kept beside it. No transaction
        begins before a state and ends after it."""
        self.records = 0
        """Read so far, those of the state included."""
        self.warnings: list[str] = []
        """What is to be told of it."""
        self.state_end_offset = 0
        """Up to where the log did not have to be read."""

    def steps(self) -> Iterator[int]:
        """Reads all of it; gives the number of records so far from time to time.

        Raises LogDamaged, LoadFailed, OSError.
        """
        yield from self._read_state()
        if self._end_offset is None:
            yield from self._begin_producers()
        yield from self._read_log()
        if self._end_offset is None:
            self.producers.finish()
        for kind in self._newest.unknown_types:
            self.warnings.append(
                f"Unknown record type {kind} while loading metadata from {self._log.directory}: ignored"
            )
        for number, (key, value, producer_id) in enumerate(self._left(), 1):
            self._replay(key, value, producer_id)
            if number % RECORDS_IN_A_STEP == 0:
                yield self.records
        yield self.records

    def _left(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Keys and values, with the producer where a transaction is open. Of two for a key the later one is the
        newer."""
        pending = list(self._open.pending())
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
        self._machine.replay(fact, producer_id)

    def _read_state(self) -> Iterator[int]:
        state, ignored = find_state(self._files, self._log, self._codec.contents)
        if state is not None and self._end_offset is not None and state.end_offset > self._end_offset:
            raise LoadFailed(f"{state.path}: ends after offset {self._end_offset}")
        if state is not None:
            try:
                for records in state.batches():
                    self._newest.put(_pairs(records))
                    self.records += len(records)
                    yield self.records
                self.state_end_offset = state.end_offset
            except (DamagedFile, Malformed, MissingKey) as error:
                ignored.append(str(error))
                self._newest = NewestValues(self._codec)
                self.records = 0
        for line in ignored:
            self.warnings.append(f"The log is read without a state that is of no use: {line}")

    def _begin_producers(self) -> Iterator[int]:
        """What is kept of producers beside the log may be older than the state."""
        known_to = self.producers.begin()
        for offset in range(known_to, self.state_end_offset, OFFSETS_IN_A_STEP):
            self.producers.catch_up(offset)
            yield self.records
        self.producers.catch_up(self.state_end_offset)

    def _read_log(self) -> Iterator[int]:
        from_offset = self.state_end_offset or self._log.log_start_offset
        for part in walk_pairs(self._log, from_offset, self._end_offset):
            try:
                if isinstance(part, PlainRun):
                    assert not self._open
                    self._newest.put(part.pairs)
                    self.records += len(part.pairs)
                else:
                    self._take(part)
                    self.records += part.header.records_count
            except CorruptBatch as error:
                raise LogDamaged(part.path, error.reason, part.position) from error
            except (Malformed, MissingKey) as error:
                raise LoadFailed(f"{part.path}: from byte {part.position} on: {error}") from error
            if self.records >= self._next_step:
                self._next_step = self.records + RECORDS_IN_A_STEP
                yield self.records

    def _take(self, batch: StoredBatch) -> None:
        """Raises CorruptBatch, Malformed, MissingKey. A batch that compaction has emptied begins no transaction:
        the end of its own may be gone already."""
        self.producers.feed(batch)
        header, records = batch.header, batch.records()
        if header.is_control:
            for record in records:
                kind = end_of_transaction(record)
                if kind is not None:
                    ended = self._open.end(header.producer_id, is_committed=kind == COMMIT)
                    self._newest.put(ended.counting)
        elif header.is_transactional:
            for record in records:
                self._take_pending(record, header.producer_id)
        else:
            if self._open:
                self._pass(records)
            self._newest.put(_pairs(records))

    def _take_pending(self, record: Record, producer_id: int) -> None:
        key = self._newest.canonical_key(record.key)
        if key is not None and record.value is not None:
            self._open.add(producer_id, key, record.value)
        elif key is not None:
            # Nobody writes such a one. Kafka removes the value at once.
            self._open.removed(key)
            self._newest.put([(key, None)])

    def _pass(self, records: list[Record]) -> None:
        for record in records:
            key = self._newest.canonical_key(record.key)
            if key is not None and record.value is None:
                self._open.removed(key)
            elif key is not None:
                self._open.passed(key)


def _pairs(records: Iterable[Record]) -> Iterator[Pair]:
    return ((record.key, record.value) for record in records)
