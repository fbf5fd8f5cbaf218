"""The state of the producers of a partition. It prevents duplicates, and writes to ended transactions.

Each producer numbers its records per partition. The state has the last five batches of every producer,
because a client has at most five in flight. A batch with exactly the sequence range of one of them is a
*duplicate* and gets the offsets of the first attempt. Any other batch must follow the last one without a gap,
or begin at 0 with a higher epoch. An unknown producer (new, expired, or with deleted records) may begin with
any sequence number.

A transaction begins in a partition with its first batch there and ends with a *marker*, a control batch of
the transaction coordinator. Before the first batch the coordinator must confirm that the transaction has this
partition. The request holds a *verification* meanwhile, and the first batch or a marker consumes it. So a
delayed batch of an ended transaction cannot begin a transaction that never ends.

The *first unstable offset* is the begin of the earliest transaction whose end consumers cannot see yet: it is
open, or its marker is not below the high watermark.

This module is pure: no clock, no I/O. An opened log rebuilds the state from a snapshot and the batches after it.

Source: KIP-98, KIP-360, KIP-890, Kafka's `ProducerStateManager`, `ProducerAppendInfo`, `VerificationStateEntry`.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from storage.batch import BatchHeader
from storage.producers.producer_table import (
    MAX_SEQUENCE,
    ProducerEntry,
    ProducerRows,
    ProducerTable,
    SequencedBatch,
    create_table,
)

MAX_EPOCH: Final = 2**15 - 1
MAX_PRODUCERS: Final = 1_000_000
"""The maximum number of producers of a partition. At this number a partition refuses new producers until
others expire. It forgets no producer early, because a known one could then write a batch twice."""
EPOCH_BUMP_SINCE: Final = 2
"""The transaction version whose markers carry the next epoch of the producer."""


class OutOfOrderSequence(Exception):
    """A batch out of sequence: an earlier batch of its producer was lost, or this one is late."""


class InvalidProducerEpoch(Exception):
    """A batch, or a marker, of a producer that a newer incarnation has replaced."""


class InvalidTransactionState(Exception):
    """A batch of a transaction that its coordinator does not know to have this partition, or one outside of the
    transaction that its producer has open."""


class TooManyProducers(Exception):
    """A batch of a new producer, in a partition that remembers `MAX_PRODUCERS` others."""


class CoordinatorFenced(Exception):
    """A marker of a transaction coordinator that another one has replaced."""


class CompletedTransaction(NamedTuple):
    """A transaction that has ended in this partition: its first record, and its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int


class VerificationStateEntry:
    """A running verification of a transaction. Its holder may begin the transaction here after the
    coordinator agrees.

    `adds_partition`: the coordinator adds the partition (transaction version 2).
    """

    __slots__ = ("adds_partition", "began_ms", "epoch", "lowest_sequence")

    def __init__(self, header: BatchHeader, now_ms: int, *, adds_partition: bool) -> None:
        self.adds_partition = adds_partition
        self.began_ms = now_ms
        self.epoch = header.producer_epoch
        self.lowest_sequence = header.base_sequence

    def update_lowest_sequence(self, header: BatchHeader) -> None:
        """Add another batch that needs the same verification."""
        if header.producer_epoch > self.epoch:
            self.epoch, self.lowest_sequence = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, header.base_sequence)


class ProducerState:
    """The state of all producers of one partition."""

    __slots__ = ("_completed", "_entries", "_expiration_ms", "_open", "_verifications", "max_producers")

    def __init__(self, expiration_ms: int, max_producers: int = MAX_PRODUCERS) -> None:
        """Create a state without producers.

        Args:
            expiration_ms: the time without a batch after which a producer is removed.
            max_producers: the number of producers at which `check_batch` refuses new ones.
        """
        self._entries = ProducerTable()
        self.max_producers = max_producers
        self._open: dict[int, int] = {}
        """The first offsets of open transactions by producer id, the earliest first."""
        self._completed: list[CompletedTransaction] = []
        """Ended transactions with markers that may be at or above the high watermark."""
        self._verifications: dict[int, VerificationStateEntry] = {}
        self._expiration_ms = expiration_ms

    def __len__(self) -> int:
        return len(self._entries)

    def iterate_entries(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Yield every known producer with its id. The caller must not change the entries."""
        return self._entries.iterate_entries()

    def copy_rows(self) -> ProducerRows:
        """Return the rows of all producers as they are now. A row has the last batch of a producer only."""
        return self._entries.copy_rows()

    def find_entry(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer, or None. The caller must not change it."""
        return self._entries.find_entry(producer_id)

    @property
    def open_transactions(self) -> dict[int, int]:
        """Return the starts of open transactions by producer id, the earliest first. The caller must not change
        it."""
        return self._open

    def restore(self, entries: Iterable[tuple[int, ProducerEntry]]) -> None:
        """Add the producers of a snapshot to an empty state."""
        assert not self._entries, len(self._entries)
        self._entries = create_table(entries)
        opened = [
            (entry.transaction_offset, producer_id)
            for producer_id, entry in self._entries.iterate_entries()
            if entry.transaction_offset is not None
        ]
        self._open.update((producer_id, offset) for offset, producer_id in sorted(opened))

    # Batches

    def find_duplicate(self, header: BatchHeader) -> SequencedBatch | None:
        """Return the remembered batch that this one repeats, or None."""
        entry = self._entries.find_entry(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def needs_verification(self, header: BatchHeader) -> bool:
        """Return whether a transactional batch would begin a transaction here. Raises InvalidProducerEpoch."""
        self._check_epoch(header)
        entry = self._entries.find_entry(header.producer_id)
        is_open = entry is not None and entry.transaction_offset is not None
        return not (is_open and entry is not None and entry.epoch == header.producer_epoch)

    def begin_verification(
        self, header: BatchHeader, now_ms: int, *, adds_partition: bool
    ) -> VerificationStateEntry:
        """Return the verification of a transactional batch. Concurrent batches of one producer share it."""
        verification = self._verifications.get(header.producer_id)
        if verification is None:
            verification = self._verifications[header.producer_id] = VerificationStateEntry(
                header, now_ms, adds_partition=adds_partition
            )
        else:
            verification.update_lowest_sequence(header)
        return verification

    def check_batch(
        self,
        header: BatchHeader,
        verification: VerificationStateEntry | None = None,
        *,
        is_verified: bool = True,
        is_sequenced: bool = True,
    ) -> None:
        """Check that a batch that is not a duplicate may follow.

        Args:
            header: The header of the batch.
            verification: The verification of the batch, if any.
            is_verified: Whether a batch that begins a transaction needs a verification.
            is_sequenced: Whether the batch is a client's with sequence numbers.

        Raises:
            InvalidProducerEpoch, InvalidTransactionState, OutOfOrderSequence, TooManyProducers
        """
        held = self._verifications.get(header.producer_id)
        begins = header.is_transactional and self.needs_verification(header)
        if begins and is_verified and (verification is None or verification is not held):
            raise InvalidTransactionState("Record was not part of an ongoing transaction")
        self._check_epoch(header)
        if is_sequenced:
            self._check_sequence(header, held)
            self._check_count(header)
        if header.producer_id in self._open and not header.is_transactional:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has an open transaction that does not include this batch"
            )

    def _check_epoch(self, header: BatchHeader) -> None:
        entry = self._entries.find_entry(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {entry.epoch} now, this batch is of epoch "
                f"{header.producer_epoch}"
            )

    def _check_sequence(self, header: BatchHeader, held: VerificationStateEntry | None) -> None:
        entry = self._entries.find_entry(header.producer_id)
        epoch, sequence = header.producer_epoch, header.base_sequence
        if held is not None and sequence > held.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sends sequence {sequence}, but sequence {held.lowest_sequence} "
                "came before it"
            )
        if entry is None:
            if held is not None and held.adds_partition and sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins with sequence {sequence}, not with 0"
                )
            return
        if epoch != entry.epoch:
            if sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins epoch {epoch} with sequence {sequence}, not with 0"
                )
            return
        last = entry.batches[-1].last_sequence if entry.batches else -1
        due = 0 if last == MAX_SEQUENCE else last + 1
        if sequence != due:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sends sequence {sequence} where {due} is due"
            )

    def _check_count(self, header: BatchHeader) -> None:
        is_new = header.producer_id >= 0 and self._entries.find_entry(header.producer_id) is None
        if is_new and len(self._entries) >= self.max_producers:
            raise TooManyProducers(
                f"This partition remembers {len(self._entries)} producers, as many as it can. A new producer must "
                "wait until others expire (producer.id.expiration.ms). Reuse producers, or use more partitions."
            )

    def record_batch(self, header: BatchHeader, first_offset: int, timestamp_ms: int) -> None:
        """Record a batch of the log that is not a marker, after an append or during a load. `first_offset` is
        its first offset, `timestamp_ms` its greatest timestamp."""
        assert not header.is_control, "a marker is taken up by `end`"
        if header.producer_id < 0:
            return
        entry = self._find_entry_in_epoch(header.producer_id, header.producer_epoch)
        last_offset = first_offset + header.last_offset_delta
        entry.add_batch(
            SequencedBatch(
                header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp_ms
            )
        )
        entry.last_timestamp_ms = timestamp_ms
        if header.is_transactional and header.records_count:
            # A batch that compaction has emptied begins no transaction: the marker of its transaction may be
            # removed already.
            self._verifications.pop(header.producer_id, None)
            if entry.transaction_offset is None:
                entry.transaction_offset = self._open[header.producer_id] = first_offset
        self._entries.store_entry(header.producer_id, entry)

    def _find_entry_in_epoch(self, producer_id: int, epoch: int) -> ProducerEntry:
        """Return the entry of a producer in an epoch; put it back after a change.

        A new epoch forgets the batches of the last one, and keeps an open transaction.
        """
        entry = self._entries.find_entry(producer_id) or ProducerEntry()
        if entry.epoch != epoch:
            entry.batches = ()
            entry.epoch = epoch
        return entry

    # Markers

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> bool:
        """Check that a marker may be written. Return whether it repeats an earlier one. Raises
        InvalidProducerEpoch, CoordinatorFenced."""
        entry = self._entries.find_entry(producer_id)
        if entry is None:
            return False
        rises = transaction_version >= EPOCH_BUMP_SINCE
        is_repeat = (
            rises and epoch == entry.epoch and (entry.transaction_offset is None or epoch == MAX_EPOCH)
        )
        if epoch < entry.epoch or (rises and epoch == entry.epoch and not is_repeat):
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {entry.epoch} now, this marker is of epoch {epoch}"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(
                f"a coordinator of epoch {entry.coordinator_epoch} has written for producer {producer_id}, this "
                f"marker is of one of epoch {coordinator_epoch}"
            )
        return is_repeat

    def record_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, marker_offset: int, timestamp_ms: int
    ) -> CompletedTransaction | None:
        """Apply a marker of the log, live or during a load.

        Return the transaction that it ends, or None if the producer has none open here. Call
        `find_last_stable_offset` from time to time: ended transactions are kept until then.
        """
        entry = self._find_entry_in_epoch(producer_id, epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        held = self._verifications.get(producer_id)
        if held is not None and not (held.adds_partition and held.epoch == epoch):
            # Otherwise the next transaction has begun meanwhile.
            del self._verifications[producer_id]
        entry.transaction_offset = None
        self._entries.store_entry(producer_id, entry)
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = CompletedTransaction(producer_id, first_offset, marker_offset)
        self._completed.append(ended)
        return ended

    def find_stable_offset_after(self, ended: CompletedTransaction) -> int:
        """Return the last stable offset after the marker of a transaction, as if the marker were below the
        high watermark."""
        return next(iter(self._open.values()), ended.marker_offset + 1)

    def find_last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset up to which consumers of committed records may read."""
        if self._completed:
            self._completed = [ended for ended in self._completed if ended.marker_offset >= high_watermark]
        if not self._open and not self._completed:
            return high_watermark
        first_unstable = min(
            next(iter(self._open.values()), high_watermark),
            min((ended.first_offset for ended in self._completed), default=high_watermark),
        )
        return min(high_watermark, first_unstable)

    # Removal

    def is_last_batch(self, header: BatchHeader) -> bool:
        """Return whether a batch is the last known one of its producer. If only a marker of the producer is
        known, this is a marker of the same epoch."""
        entry = self._entries.find_entry(header.producer_id)
        if entry is None:
            return False
        if entry.batches:
            return entry.batches[-1].last_offset == header.last_offset
        return header.is_control and header.producer_epoch == entry.epoch

    def expire(self, now_ms: int) -> int:
        """Remove producers whose last batch is too old by the wall clock, and return their number.

        Producers with an open transaction stay. Old verifications are removed too. One call examines a part of many
        producers, and the next call continues.
        """
        limit = now_ms - self._expiration_ms
        for key in [key for key, held in self._verifications.items() if held.began_ms <= limit]:
            del self._verifications[key]
        return self._entries.expire(limit)

    # Copies

    def copy(self) -> "ProducerState":
        """Return a copy; later changes of one do not affect the other."""
        other = ProducerState(self._expiration_ms, self.max_producers)
        other._entries = self._entries.copy()
        other._open = dict(self._open)
        other._completed = list(self._completed)
        other._verifications = dict(self._verifications)
        return other
