"""Saves every valid batch of a damaged log, in order, and reports the rest.

The repaired log is written to another directory, segment by segment, with new indexes. Batches keep their bytes and
offsets, so a loss leaves a gap, as compaction does. A batch with a valid checksum that does not decompress into its
records is left out too, because no client can use it.

The repaired log is valid and synced as a whole. Therefore its recovery point is its end. With a lower
recovery point the next start could take a gap for the end of the log.

The remaining transactions determine the state of the producers. So indexes of aborted transactions and
snapshots are removed if any batch was lost or one of them is invalid. The next start rebuilds them from the
batches.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from storage.batch import decode_records, rewrite_batch
from storage.compression import DEFAULT_LIMIT_BYTES
from storage.files import Files
from storage.inspection.log_findings import FindingKind
from storage.inspection.log_reader import LogListing, SegmentFile
from storage.inspection.segment_file_checks import IndexesCheck, TransactionsCheck
from storage.inspection.segment_scan import BadBytes, SegmentScan
from storage.inspection.verification import check_record_offsets
from storage.leader_epochs import EpochStart
from storage.log_config import LogConfig
from storage.producers.producer_snapshots import SNAPSHOT_SUFFIX
from storage.record import Record
from storage.segment import LOG_SUFFIX, LogSegment, format_segment_name
from storage.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.storage_errors import CorruptBatch, DecompressedTooLarge, format_error_reason
from storage.stored_batch import StoredBatch
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX

INDEX_INTERVAL_BYTES: Final = LogConfig().index_interval_bytes

RecordExaminer = Callable[[Record], str | None]


class RepairLoss(NamedTuple):
    """Something that is not in the repaired log."""

    kind: FindingKind
    path: str
    position: int
    length: int
    """Bytes of the damaged file that were left out; of a record, those of its key and value."""
    first_offset: int
    end_offset: int | None
    """The affected offsets are those from the first one to before this one. None: the number is unknown."""
    reason: str


@dataclass(slots=True)
class RepairedSegment:
    """The result of the repair of a segment."""

    source: SegmentFile
    batches: int = 0
    records: int = 0
    bytes: int = 0
    losses: list[RepairLoss] = field(default_factory=list)
    has_wrong_index: bool = False
    """An index of the damaged log does not agree with its segment; the new one does."""

    @property
    def lost_bytes(self) -> int:
        """Return the lost bytes of the damaged segment, in omitted batches and between them."""
        return sum(loss.length for loss in self.losses if loss.kind is not FindingKind.UNDECODABLE_RECORD)


@dataclass(slots=True)
class RepairedLog:
    """The result of the repair of a log."""

    log_end_offset: int
    segments: list[RepairedSegment] = field(default_factory=list)
    has_wrong_transaction_index: bool = False
    """Whether an index of aborted transactions disagrees with its segment, or with the remaining part of it."""
    epochs: list[EpochStart] = field(default_factory=list)
    """The leader epochs in the batches."""

    @property
    def losses(self) -> list[RepairLoss]:
        """Return all losses, in the order of the log."""
        return [loss for segment in self.segments for loss in segment.losses]

    def is_kept(self, segment: RepairedSegment) -> bool:
        """Return whether a segment gets a file: one with remaining batches, or the last one, which marks the
        end of the log even if it is empty."""
        return segment.batches > 0 or segment is self.segments[-1]


class LogRepair:
    """Writes the valid part of one log into a directory."""

    def __init__(
        self,
        files: Files,
        log: LogListing,
        *,
        examine: RecordExaminer | None = None,
        drops_undecodable: bool = False,
    ) -> None:
        """Create a repair.

        `examine` checks the records of a log of `__consumer_offsets`. `drops_undecodable` drops records with
        a problem.
        """
        self._files = files
        self._log = log
        self._examine = examine
        self._drops_undecodable = drops_undecodable
        self._transactions = TransactionsCheck(files)
        first = log.segments[0].base_offset if log.segments else 0
        self.result = RepairedLog(first)

    def write(self, directory: str) -> RepairedLog:
        """Write the segments and their indexes, synced, into an existing directory. Raises OSError."""
        for segment in self.repair_segments(directory):
            if not self.result.is_kept(segment):
                remove_segment(self._files, directory, segment.source.base_offset)
        self._files.fsync_directory(directory)
        return self.result

    def repair_segments(self, directory: str) -> Iterator[RepairedSegment]:
        """Write the segments step by step: each is written, synced and closed when it is yielded. Raises
        OSError."""
        for number, source in enumerate(self._log.segments):
            repaired = RepairedSegment(source)
            self.result.segments.append(repaired)
            self._repair_segment(repaired, self._log.find_end_offset(number), directory)
            yield repaired

    def _repair_segment(self, repaired: RepairedSegment, end_offset: int | None, directory: str) -> None:
        source = repaired.source
        assert self.result.log_end_offset <= source.base_offset, (source.path, self.result.log_end_offset)
        self.result.log_end_offset = source.base_offset
        target = LogSegment.create(self._files, directory, source.base_offset)
        try:
            file = self._files.open_read(source.path)
        except OSError as error:
            self._lose_segment(target, repaired, end_offset, error)
            return
        try:
            scan = SegmentScan(file, source.base_offset, end_offset=end_offset)
            indexes = IndexesCheck(self._files, source.path, source.base_offset)
            kept_bytes = 0
            for piece in self._select_batches(scan, indexes, repaired):
                self._append_batch(target, piece, repaired)
                kept_bytes += piece.header.size_bytes  # the original size, whatever was left out of the batch
            assert kept_bytes + repaired.lost_bytes == scan.size, (source.path, kept_bytes, scan.size)
            repaired.has_wrong_index = any(indexes.finish(is_sealed=end_offset is not None))
            wrong = self._transactions.finish_segment(
                source.path, scan.size, is_sealed=end_offset is not None
            )
            self.result.has_wrong_transaction_index |= bool(wrong or repaired.losses)
            self._close_gap(repaired, end_offset)
            target.file.fdatasync()
            target.write_indexes()
            self._sync_indexes(target.path)
        finally:
            file.close()
            target.close()

    def _lose_segment(
        self, target: LogSegment, repaired: RepairedSegment, end_offset: int | None, error: OSError
    ) -> None:
        """Leave a segment empty because its file cannot be opened."""
        source = repaired.source
        reason = format_error_reason(error, source.path)
        repaired.losses.append(
            RepairLoss(FindingKind.UNUSABLE_FILE, source.path, 0, 0, source.base_offset, end_offset, reason)
        )
        self.result.has_wrong_transaction_index = True
        try:
            target.file.fdatasync()
            target.write_indexes()
            self._sync_indexes(target.path)
        finally:
            target.close()

    def _sync_indexes(self, log_path: str) -> None:
        """Sync the indexes of a segment, because a load trusts any index that looks complete, also a torn one."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            index = self._files.open_append(log_path.removesuffix(LOG_SUFFIX) + suffix)
            try:
                index.fdatasync()
            finally:
                index.close()

    def _select_batches(
        self, scan: SegmentScan, indexes: IndexesCheck, repaired: RepairedSegment
    ) -> Iterator[StoredBatch]:
        """Yield the batches to keep. Record all other bytes as lost."""
        for piece in scan.scan_pieces():
            if isinstance(piece, BadBytes):
                indexes.skip_bad_bytes(piece)
                self._transactions.skip_bad_bytes()
                kind = FindingKind.OLD_FORMAT if piece.is_old_format else FindingKind.DAMAGED_BATCH
                repaired.losses.append(
                    RepairLoss(
                        kind, piece.path, piece.position, piece.length, scan.next_offset, None, piece.reason
                    )
                )
                continue
            indexes.check_batch(piece)
            self._close_gap(repaired, piece.header.base_offset)
            try:
                yield self._check_batch(piece, repaired)
            except CorruptBatch as error:
                header = piece.header
                repaired.losses.append(
                    RepairLoss(
                        FindingKind.UNREADABLE_RECORDS,
                        piece.path,
                        piece.position,
                        piece.header.size_bytes,
                        header.base_offset,
                        header.next_offset,
                        error.reason,
                    )
                )

    def _close_gap(self, repaired: RepairedSegment, end_offset: int | None) -> None:
        """Set the end offset of the preceding losses, which is the start of the next sound batch or segment."""
        losses = repaired.losses
        for number in range(len(losses) - 1, -1, -1):
            if losses[number].end_offset is not None:
                return
            losses[number] = losses[number]._replace(end_offset=end_offset)

    def _check_batch(self, batch: StoredBatch, repaired: RepairedSegment) -> StoredBatch:
        """Return the batch without the records that are dropped. Raises CorruptBatch for an unusable batch."""
        header = batch.header
        try:
            records = decode_records(batch.data, header, DEFAULT_LIMIT_BYTES)
        except DecompressedTooLarge:
            if self._examine is not None:
                raise
            return batch  # only consumers need to decompress it
        check_record_offsets(header, records)
        self._transactions.check_batch(header, records)
        if self._examine is None or not self._drops_undecodable or header.is_control:
            return batch
        wrong = {record.offset: self._examine(record) for record in records}
        kept = [record for record in records if wrong[record.offset] is None]
        if len(kept) == len(records):
            return batch
        for record in records:
            reason = wrong[record.offset]
            if reason is not None:
                size_bytes = len(record.key or b"") + len(record.value or b"")
                repaired.losses.append(
                    RepairLoss(
                        FindingKind.UNDECODABLE_RECORD,
                        batch.path,
                        batch.position,
                        size_bytes,
                        record.offset,
                        record.offset + 1,
                        reason,
                    )
                )
        data = rewrite_batch(header, kept, header.delete_horizon_ms)
        return batch._replace(data=data, header=header._replace(records_count=len(kept)))

    def _append_batch(self, target: LogSegment, batch: StoredBatch, repaired: RepairedSegment) -> None:
        header = batch.header
        target.append(
            batch.data, header.base_offset, header.last_offset, header.max_timestamp_ms, INDEX_INTERVAL_BYTES
        )
        self.result.log_end_offset = header.next_offset
        repaired.batches += 1
        repaired.records += header.records_count
        repaired.bytes += len(batch.data)
        epoch = header.partition_leader_epoch
        epochs = self.result.epochs
        if epoch >= 0 and (not epochs or epoch > epochs[-1].epoch):
            epochs.append(EpochStart(epoch, header.base_offset))


def remove_segment(files: Files, directory: str, base_offset: int) -> None:
    """Remove the existing files of a segment, the log first. Raises OSError."""
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        path = f"{directory}/{format_segment_name(base_offset)}{suffix}"
        if files.exists(path):
            files.unlink(path)


def remove_producer_files(files: Files, directory: str) -> None:
    """Remove the files that the next start rebuilds from the batches of a log. Raises OSError."""
    # Remove the snapshots first and durably: without them all indexes are rebuilt.
    for suffix in (SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        for name in files.listdir(directory):
            if name.endswith(suffix):
                files.unlink(f"{directory}/{name}")
        files.fsync_directory(directory)


def format_leader_epochs(epochs: list[EpochStart]) -> bytes:
    """Format the checkpoint of leader epochs in Kafka's form."""
    assert all(before.epoch < after.epoch for before, after in pairwise(epochs)), epochs
    lines = ["0", str(len(epochs)), *(f"{entry.epoch} {entry.start_offset}" for entry in epochs)]
    return "".join(f"{line}\n" for line in lines).encode()
