"""A test log with transactions, compared with a model that remembers every batch."""

from dataclasses import dataclass, field
from typing import NamedTuple

from storage.batch import encode_batch, read_header
from storage.files import Files
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.producers.end_transaction_marker import EndMarker, encode_marker
from storage.producers.producer_state_manager import ProducerStateManager
from storage.record import Record
from storage.transaction_index import AbortedTransaction

DIRECTORY = "/data/orders-0"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
HOUR_MS = 3_600_000
LEVEL_ONE, LEVEL_TWO = 1, 2


class Event(NamedTuple):
    """An appended batch; `is_committed` is None unless it is a marker."""

    offset: int
    records: int
    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    is_committed: bool | None
    coordinator_epoch: int

    @property
    def last_offset(self) -> int:
        """Of its records."""
        return self.offset + self.records - 1


class Known(NamedTuple):
    """The expected state of a producer."""

    epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_offset: int
    transaction_offset: int | None
    timestamp_ms: int


@dataclass
class Model:
    """Everything that was appended, and nothing clever."""

    events: list[Event] = field(default_factory=list)

    def cut(self, end_offset: int) -> None:
        """The log ends there."""
        self.events = [event for event in self.events if event.last_offset < end_offset]

    def producers(self) -> dict[int, Known]:
        """As they are after the last event."""
        known: dict[int, Known] = {}
        for event in self.events:
            if event.producer_id < 0:
                continue
            old = known.get(event.producer_id, Known(-1, -1, -1, -1, None, -1))
            if old.epoch != event.epoch:
                old = old._replace(epoch=event.epoch, last_sequence=-1, last_offset=-1)
            old = old._replace(timestamp_ms=event.offset)
            if event.is_committed is not None:
                known[event.producer_id] = old._replace(
                    coordinator_epoch=event.coordinator_epoch, transaction_offset=None
                )
                continue
            first = old.transaction_offset
            if event.is_transactional and first is None:
                first = event.offset
            known[event.producer_id] = old._replace(
                last_sequence=event.sequence + event.records - 1,
                last_offset=event.last_offset,
                transaction_offset=first,
            )
        return known

    def open_transactions(self, end_offset: int) -> dict[int, int]:
        """Where those begin that have no marker before an offset, by producer."""
        before = Model([event for event in self.events if event.offset < end_offset])
        found = before.producers().items()
        return {key: known.transaction_offset for key, known in found if known.transaction_offset is not None}

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where consumers of committed records may read."""
        return min([high_watermark, *self.open_transactions(high_watermark).values()])

    def aborted(self) -> list[AbortedTransaction]:
        """All, by marker."""
        found = []
        for event in self.events:
            first = self.open_transactions(event.offset).get(event.producer_id)
            if event.is_committed is False and first is not None:
                others = self.open_transactions(event.offset + 1).values()
                stable = min([event.offset + 1, *others])
                found.append(AbortedTransaction(event.producer_id, first, event.offset, stable))
        return found


class TransactionalLog:
    """A log that is followed. Record `n` was written at time `n`."""

    def __init__(self, files: Files, config: LogConfig = SMALL, directory: str = DIRECTORY) -> None:
        self.config = config
        self.model = Model()
        self.log = PartitionLog.open(files, directory, config)
        self.producers = ProducerStateManager.load(self.log, HOUR_MS)

    def plain(self, key: str = "key") -> None:
        """Append a batch without a producer id."""
        self._append(Event(self.log.log_end_offset, 1, -1, -1, -1, False, None, -1), key)

    def data(
        self, producer_id: int, count: int = 1, *, is_transactional: bool = True, key: str = "key"
    ) -> None:
        """The next batch of a producer, in its epoch."""
        known = self.model.producers().get(producer_id, Known(-1, -1, -1, -1, None, -1))
        event = Event(
            self.log.log_end_offset,
            count,
            producer_id,
            max(known.epoch, 0),
            known.last_sequence + 1,
            is_transactional,
            None,
            -1,
        )
        self._append(event, key)

    def _append(self, event: Event, key: str) -> None:
        records = [
            Record(-1, event.offset, f"{key}-{number}".encode(), b"x" * 30) for number in range(event.records)
        ]
        batch = encode_batch(
            records,
            producer_id=event.producer_id,
            producer_epoch=event.epoch,
            base_sequence=event.sequence,
            is_transactional=event.is_transactional,
        )
        result = self.log.append(batch)
        self.producers.on_batch_appended(read_header(batch), result.base_offset, event.offset)
        self.model.events.append(event)

    def end(
        self, producer_id: int, *, is_committed: bool, level: int = LEVEL_ONE, coordinator_epoch: int = 0
    ) -> None:
        """A marker: of level 2 it carries the next epoch."""
        known = self.model.producers().get(producer_id)
        epoch = 0 if known is None else known.epoch + (level == LEVEL_TWO)
        offset = self.log.log_end_offset
        marker = EndMarker(is_committed, coordinator_epoch)
        result = self.log.append(encode_marker(marker, producer_id, epoch, offset))
        self.producers.on_marker_appended(marker, producer_id, epoch, result.base_offset, offset)
        self.model.events.append(
            Event(offset, 1, producer_id, epoch, -1, True, is_committed, coordinator_epoch)
        )

    def sync(self) -> int:
        """Makes all durable; the recovery point."""
        self.log.sync()
        return self.log.synced_offset

    def take_up(self, files: Files, recovery_point: int, *, was_clean: bool = False) -> None:
        """Another process opens the log."""
        self.log = PartitionLog.open(
            files, DIRECTORY, self.config, recovery_point=recovery_point, was_clean=was_clean
        )
        self.producers = ProducerStateManager.load(self.log, HOUR_MS)
        self.model.cut(self.log.log_end_offset)

    def known(self) -> dict[int, Known]:
        """What is known of the producers."""
        return {
            producer_id: Known(
                entry.epoch,
                entry.coordinator_epoch,
                entry.batches[-1].last_sequence if entry.batches else -1,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.transaction_offset,
                entry.last_timestamp_ms,
            )
            for producer_id, entry in self.producers.state.iterate_entries()
        }

    def check(self) -> None:
        """Check the log against the model."""
        end_offset = self.log.log_end_offset
        assert self.known() == self.model.producers()
        assert self.producers.find_last_stable_offset(end_offset) == self.model.last_stable_offset(end_offset)
        assert list(self.producers.aborted) == self.model.aborted()
        for each in self.model.aborted():
            assert each in self.producers.find_aborted_within(each.first_offset, each.first_offset + 1)
            assert each in self.producers.find_aborted_within(each.last_offset, each.last_offset + 1)
