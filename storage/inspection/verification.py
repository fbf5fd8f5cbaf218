"""Verifies a log on disk: finds all damage, and the effect of each finding on the next start. Files that
cannot be used (a directory, a broken link or a pipe in the place of a file, or an unreadable file) are
findings of their own, and the other files are still checked.

Verification is read-only and takes no lock, so it may run beside the process that writes. The effect is
derived from the last recovery point on disk, by the rules of `storage/recovery`. Past it the next start
truncates the log at the first bad byte. Before it nothing is truncated, and the partition is not loaded.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from storage.batch import BatchHeader, decode_records
from storage.compression import DEFAULT_LIMIT_BYTES
from storage.files import Files
from storage.inspection.log_findings import FindingEffect, FindingKind, LogFinding, LogTotals
from storage.inspection.log_reader import (
    LogListing,
    LogReader,
    SegmentFile,
    find_data_directory,
    list_names,
    parse_base_offset,
)
from storage.inspection.segment_file_checks import IndexesCheck, TransactionsCheck, check_snapshots
from storage.inspection.segment_scan import BadBytes, Piece
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.producers.producer_snapshots import find_snapshot_offsets
from storage.record import Record
from storage.segment import LOG_SUFFIX
from storage.storage_errors import CorruptBatch, DamagedFile, DecompressedTooLarge, format_error_reason
from storage.stored_batch import StoredBatch

_ATTEMPTS: Final = 3
_LOG_FILE: Final = re.compile(
    r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)(\.(swap|cleaned|deleted))?"
    r"|leader-epoch-checkpoint|partition\.metadata|.*\.state"
)


def find_unusable_files(files: Files, directory: str) -> dict[str, str]:
    """Return the unusable files of a partition directory: the reason, by path.

    If the directory cannot be listed, it is the only entry.
    """
    try:
        names = files.listdir(directory)
    except OSError as error:
        return {directory: format_error_reason(error, directory)}
    found = {}
    for name in filter(_LOG_FILE.fullmatch, names):
        path = f"{directory}/{name}"
        try:
            if _is_broken_link(files, directory, name):
                found[path] = "is a link to nothing"
        except OSError as error:
            found[path] = format_error_reason(error, path)
    return found


def _is_broken_link(files: Files, directory: str, name: str) -> bool:
    """Return whether a name is listed, but has no file. Raises OSError if the file cannot be used.

    A daemon may remove a file after it was listed, and write it anew before it is listed again: only a name
    that has no file each time is a broken link.
    """
    for _ in range(_ATTEMPTS):
        try:
            _open_or_read(files, f"{directory}/{name}")
        except FileNotFoundError:
            if name not in files.listdir(directory):
                return False
        else:
            return False
    return True


def _open_or_read(files: Files, path: str) -> None:
    """Open a segment, which may be large; read any other file. Raises OSError."""
    if path.endswith(LOG_SUFFIX):
        files.open_read(path).close()
    else:
        files.read(path)


_LAZY_INDEXES: Final = (".index", ".timeindex")

RecordExaminer = Callable[[Record], str | None]
"""Returns the problem in the content of a record, or None."""


class LogVerification:
    """Verifies one log. The totals are complete at the end of `find_problems`."""

    def __init__(
        self,
        files: Files,
        log: LogListing,
        *,
        examine: RecordExaminer | None = None,
        pause: Callable[[], object] | None = None,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> None:
        """Create a verification.

        `examine` checks the records of a log of `__consumer_offsets`. `pause` is that of `LogReader`. `limit_bytes`
        bounds the uncompressed size of a batch.
        """
        self._files = files
        self._log = log
        self._examine = examine
        self._reader = LogReader(files, log, pause=pause, on_unreadable=self._on_unreadable_segment)
        self._unusable: dict[str, str] = {}
        """The reasons why files cannot be used, by path."""
        self._skipped: list[LogFinding] = []
        self._has_skipped = False
        self._limit_bytes = limit_bytes
        self._recovery_point: int | None = None
        self._is_cut = False
        self._batches = self._records = self._bytes = 0
        self._end_offset = log.segments[0].base_offset if log.segments else 0
        self._indexes: IndexesCheck | None = None
        self._transactions = TransactionsCheck(files)
        self._bad_offset = self._end_offset

    @property
    def totals(self) -> LogTotals:
        """Return the totals of the valid batches so far."""
        return LogTotals(self._batches, self._records, self._bytes, self._end_offset)

    def find_problems(self) -> Iterator[LogFinding]:
        """Yield all findings, from the beginning of the log to its end. An unreadable file is one finding; the
        check continues with the other files."""
        if self._log.is_whole:
            self._unusable = find_unusable_files(self._files, self._log.directory)
            for path, reason in self._unusable.items():
                yield _create_unusable_finding(path, reason)
        # List the snapshots before reading the segments: a running process has appended all records before the
        # offset of a snapshot when it writes the snapshot.
        # offset of a snapshot when it writes that.
        offsets = (
            find_snapshot_offsets(list_names(self._files, self._log.directory)) if self._log.is_whole else []
        )
        yield from self._check_checkpoints()
        pending: BadBytes | None = None
        for piece in self._reader.read_pieces():
            if pending is not None:
                yield self._describe_bad_bytes(pending, is_last=False)
                pending = None
            yield from self._enter_segment(piece)
            if isinstance(piece, BadBytes):
                assert self._indexes is not None
                self._indexes.skip_bad_bytes(piece)
                self._transactions.skip_bad_bytes()
                pending = piece  # whether it is the tail is known when another piece follows
            else:
                yield from self._check_batch(piece)
        last = self._reader.log.segments[-1:]
        if pending is not None:
            yield self._describe_bad_bytes(pending, is_last=pending.path == last[0].path)
        yield from self._leave_segment(is_sealed=False)
        self._end_offset = max(self._end_offset, *(segment.base_offset for segment in last), 0)
        yield from self._skipped
        yield from self._check_snapshots(offsets)
        if (
            self._recovery_point is not None
            and self._end_offset < self._recovery_point
            and self._log.is_whole
            and not self._has_skipped
        ):
            yield self._describe_short_log(self._recovery_point)

    def _on_unreadable_segment(self, segment: SegmentFile, error: OSError) -> None:
        """Report a segment that cannot be read."""
        self._has_skipped = True
        if segment.path not in self._unusable:
            self._skipped.append(
                _create_unusable_finding(segment.path, format_error_reason(error, segment.path))
            )

    # Small files

    def _check_checkpoints(self) -> Iterator[LogFinding]:
        directory = find_data_directory(self._files, self._log)
        if directory is not None and self._log.name is not None:
            try:
                points = read_offsets(self._files, f"{directory}/{RECOVERY_POINTS}")
                self._recovery_point = points.get(self._log.name, 0)
                starts = read_offsets(self._files, f"{directory}/{LOG_START_OFFSETS}")
                self._end_offset = max(self._end_offset, starts.get(self._log.name, 0))
            except DamagedFile as error:
                yield _create_damaged_file_finding(error)
            except OSError as error:
                yield _create_damaged_file_finding(
                    DamagedFile(str(error.filename or directory), format_error_reason(error, ""))
                )
        if self._log.is_whole and f"{self._log.directory}/{LEADER_EPOCHS}" not in self._unusable:
            try:
                LeaderEpochs.read(self._files, self._log.directory)
            except DamagedFile as error:
                yield _create_damaged_file_finding(error)

    def _describe_short_log(self, recovery_point: int) -> LogFinding:
        last = self._log.segments[-1].path if self._log.segments else self._log.directory
        reason = f"the log ends at offset {self._end_offset}, but was synced up to {recovery_point}"
        return LogFinding(
            FindingKind.RECOVERY_POINT, FindingEffect.STOPS_LOAD, last, None, 0, self._end_offset, reason
        )

    def _check_snapshots(self, offsets: Sequence[int]) -> Iterator[LogFinding]:
        """Check the snapshots of producers at some offsets."""
        end_offset = self._end_offset
        if max(offsets, default=0) > end_offset:
            # A running process may have begun segments after the listing.
            for piece in self._reader.read_appended():
                if isinstance(piece, StoredBatch):
                    end_offset = max(end_offset, piece.header.next_offset)
        end_offset = max(end_offset, *(segment.base_offset for segment in self._reader.log.segments), 0)
        for path, wrong in check_snapshots(self._files, self._log.directory, offsets, end_offset):
            yield LogFinding(FindingKind.PRODUCER_SNAPSHOT, FindingEffect.REBUILT, path, None, 0, None, wrong)

    # Batches

    def _check_batch(self, batch: StoredBatch) -> Iterator[LogFinding]:
        header = batch.header
        assert self._indexes is not None
        self._indexes.check_batch(batch)
        self._batches += 1
        self._records += header.records_count
        self._bytes += header.size_bytes
        self._end_offset = header.next_offset
        try:
            records = self._decode_records(batch)
            self._transactions.check_batch(header, records)
        except CorruptBatch as error:
            effect = FindingEffect.STOPS_LOAD if self._examine is not None else FindingEffect.FAILS_READS
            yield LogFinding(
                FindingKind.UNREADABLE_RECORDS,
                effect,
                batch.path,
                batch.position,
                len(batch.data),
                header.base_offset,
                error.reason,
            )
            return
        if self._examine is None or header.is_control:
            return
        for record in records:
            wrong = self._examine(record)
            if wrong is not None:
                yield LogFinding(
                    FindingKind.UNDECODABLE_RECORD,
                    FindingEffect.STOPS_LOAD,
                    batch.path,
                    batch.position,
                    0,
                    record.offset,
                    wrong,
                )

    def _decode_records(self, batch: StoredBatch) -> list[Record]:
        """Decode records. Raises CorruptBatch for invalid records, or for offsets outside of the batch."""
        try:
            records = decode_records(batch.data, batch.header, self._limit_bytes)
        except DecompressedTooLarge:
            if self._examine is not None:
                raise
            return []  # only consumers need to decompress it
        check_record_offsets(batch.header, records)
        return records

    def _describe_bad_bytes(self, bad: BadBytes, *, is_last: bool) -> LogFinding:
        kind = (
            FindingKind.OLD_FORMAT
            if bad.is_old_format
            else FindingKind.TORN_TAIL
            if is_last
            else FindingKind.DAMAGED_BATCH
        )
        return LogFinding(
            kind,
            self._find_effect(bad, is_last),
            bad.path,
            bad.position,
            bad.length,
            self._bad_offset,
            bad.reason,
        )

    def _find_effect(self, bad: BadBytes, is_last: bool) -> FindingEffect:
        if bad.is_old_format:
            return FindingEffect.STOPS_LOAD
        is_cut = is_last if self._recovery_point is None else self._bad_offset >= self._recovery_point
        if is_cut or self._is_cut:
            self._is_cut = True
            return FindingEffect.CUT_AT_START
        return FindingEffect.STOPS_LOAD

    # Segments

    def _enter_segment(self, piece: Piece) -> Iterator[LogFinding]:
        """Start the checks of a segment's indexes at its first piece."""
        if self._indexes is None or self._indexes.path != piece.path:
            yield from self._leave_segment(is_sealed=True)
            self._indexes = IndexesCheck(self._files, piece.path, parse_base_offset(self._log, piece.path))
        if isinstance(piece, BadBytes):
            self._bad_offset = max(self._end_offset, self._indexes.base_offset)

    def _leave_segment(self, *, is_sealed: bool) -> Iterator[LogFinding]:
        if self._indexes is not None:
            for kind, is_rebuilt, path, wrong in self._indexes.finish(is_sealed):
                effect = FindingEffect.REBUILT if is_rebuilt else FindingEffect.MISLEADS_READS
                yield LogFinding(kind, effect, path, None, 0, self._indexes.base_offset, wrong)
            end = self._indexes.end if self._indexes.is_contiguous else None
            for path, wrong, is_rebuilt in self._transactions.finish_segment(
                self._indexes.path, end, is_sealed=is_sealed
            ):
                if path in self._unusable:
                    continue
                # After an unclean stop the next start rebuilds the indexes from the segment of the recovery
                # point on.
                is_rebuilt |= self._recovery_point is not None and self._end_offset > self._recovery_point
                effect = FindingEffect.REBUILT if is_rebuilt else FindingEffect.MISLEADS_COMMITTED_READS
                yield LogFinding(
                    FindingKind.TRANSACTION_INDEX, effect, path, None, 0, self._indexes.base_offset, wrong
                )


def _create_unusable_finding(path: str, reason: str) -> LogFinding:
    name = os.path.basename(path)
    # The indexes of a sealed segment are read at its first use. A start reads all other files.
    effect = FindingEffect.FAILS_READS if name.endswith(_LAZY_INDEXES) else FindingEffect.STOPS_LOAD
    return LogFinding(FindingKind.UNUSABLE_FILE, effect, path, None, 0, None, reason)


def _create_damaged_file_finding(error: DamagedFile) -> LogFinding:
    return LogFinding(
        FindingKind.CHECKPOINT, FindingEffect.STOPS_LOAD, error.path, error.position, 0, None, error.reason
    )


def check_record_offsets(header: BatchHeader, records: list[Record]) -> None:
    """Check that the offsets of records increase within the range of their batch. Raises CorruptBatch."""
    least = header.base_offset
    for record in records:
        if not least <= record.offset <= header.last_offset:
            raise CorruptBatch(
                f"record at offset {record.offset} where {least} to {header.last_offset} is due"
            )
        least = record.offset + 1
