"""A partition that producers write to. Consumers read only its durable records, because a crash may lose the
others.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from coordinator.apis.transaction_markers import TransactionEnd
from protocol.error_codes import ErrorCode
from storage.batch import BatchHeader, read_header
from storage.producers.end_transaction_marker import EndMarker, encode_marker
from storage.producers.producer_state import (
    CompletedTransaction,
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    ProducerState,
    VerificationStateEntry,
)
from tests.simulation.disk import AppendFailed
from tests.simulation.transactions.log import Log
from tests.simulation.world import World

EXPIRATION_MS: Final = 86_400_000
Done: TypeAlias = Callable[[ErrorCode], None]


class Question(NamedTuple):
    """A request to verify that a producer's transaction has a partition. `adds`: add it if it is missing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partition: tuple[str, int]
    adds: bool


Verify: TypeAlias = Callable[[Question, Done], None]
MakeProducers: TypeAlias = Callable[[int], ProducerState]


class Entry(NamedTuple):
    """One batch of the log with one record; a marker holds the end of its transaction."""

    data: bytes
    marker: EndMarker | None

    @property
    def header(self) -> BatchHeader:
        """The decoded header of the batch."""
        return read_header(self.data)


class Partition:
    """A partition: its log and the producer state from it."""

    verifies = True

    def __init__(
        self, world: World, name: tuple[str, int], verify: Verify, make_producers: MakeProducers
    ) -> None:
        self.world = world
        self.name = name
        self.log: Log[Entry] = Log(world, self.load)
        self.aborted: list[CompletedTransaction] = []
        self._verify = verify
        self._make_producers = make_producers
        self.load()

    def load(self) -> None:
        """Load the log, after a crash or a failed sync."""
        self.state = self._make_producers(EXPIRATION_MS)
        self.aborted = []
        for offset, entry in enumerate(self.log.entries):
            self._take_up(entry, offset)

    def _take_up(self, entry: Entry, offset: int) -> None:
        header = entry.header
        if entry.marker is None:
            self.state.record_batch(header, offset, header.max_timestamp_ms)
            return
        epoch, timestamp_ms = entry.marker.coordinator_epoch, header.max_timestamp_ms
        ended = self.state.record_marker(
            header.producer_id, header.producer_epoch, epoch, offset, timestamp_ms
        )
        if ended is not None and not entry.marker.is_committed:
            self.aborted.append(ended)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which consumers of committed records may read."""
        return self.state.find_last_stable_offset(self.log.durable)

    # Producers

    def produce(self, data: bytes, transactional_id: str, *, adds: bool, done: Done) -> None:
        """Write a batch after the verification of its transaction for this partition."""
        header = read_header(data)
        try:
            needs = self.verifies and self.state.needs_verification(header)
        except InvalidProducerEpoch:
            done(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        if not needs:
            self._write(data, header, None, done)
            return
        state, held = (
            self.state,
            self.state.begin_verification(header, self.world.now_ms, adds_partition=adds),
        )

        def on_verified(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                done(error)
            elif self.state is not state:
                done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                self._write(data, header, held, done)

        question = Question(transactional_id, header.producer_id, header.producer_epoch, self.name, adds)
        self._verify(question, on_verified)

    def _write(
        self, data: bytes, header: BatchHeader, held: VerificationStateEntry | None, done: Done
    ) -> None:
        if self.state.find_duplicate(header) is None:
            try:
                self.state.check_batch(header, held, is_verified=self.verifies)
                self._append(Entry(data, None))
            except InvalidProducerEpoch:
                done(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            except InvalidTransactionState:
                done(ErrorCode.INVALID_TXN_STATE)
                return
            except OutOfOrderSequence:
                done(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                return
            except AppendFailed:
                done(ErrorCode.KAFKA_STORAGE_ERROR)
                return
        self._tell_when_durable(done)

    def _append(self, entry: Entry) -> None:
        offset = self.log.append(entry)
        self._take_up(entry, offset)

    def _tell_when_durable(self, done: Done) -> None:
        self.log.when_durable(
            lambda is_there: done(ErrorCode.NONE if is_there else ErrorCode.KAFKA_STORAGE_ERROR)
        )

    # Markers

    def write_marker(self, end: TransactionEnd, done: Done) -> None:
        """Write the end of a transaction."""
        error = refusal_of_marker(self.state, end)
        if error is not ErrorCode.NONE:
            done(error)
            return
        marker = EndMarker(end.is_committed, end.coordinator_epoch)
        data = encode_marker(marker, end.producer_id, end.producer_epoch, self.world.now_ms)
        try:
            self._append(Entry(data, marker))
        except AppendFailed:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._tell_when_durable(done)


def refusal_of_marker(state: ProducerState, end: TransactionEnd) -> ErrorCode:
    """Return the error of a marker, NONE if it may be written."""
    try:
        state.check_marker(
            end.producer_id, end.producer_epoch, end.coordinator_epoch, end.transaction_version
        )
    except InvalidProducerEpoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    except CoordinatorFenced:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return ErrorCode.NONE
