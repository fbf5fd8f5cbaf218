"""Checking a log on disk: everything that is wrong with it, and what the next start would make of that.

Read-only, and without a lock, so that it may run beside the process that writes. What that process will do is
worked out from the recovery point that it last wrote down, by the rules of `storage/recovery`: past it, the log is
cut at the first bad byte, with everything behind it; before it, nothing is cut, and the partition is not loaded.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

from storage.batch import BatchHeader, decode_records
from storage.checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.compression import DEFAULT_LIMIT_BYTES
from storage.errors import CorruptBatch, DamagedFile, DecompressedTooLarge
from storage.files import Files
from storage.inspection.directory_reader import (
    LogFiles,
    SegmentFile,
    base_offset_of,
    data_directory_of,
    list_again,
)
from storage.inspection.findings import Effect, Finding, Kind, LogTotals
from storage.inspection.index_check import IndexesCheck
from storage.inspection.log_reader import LogReader
from storage.inspection.segment_scan import BadBytes, Piece
from storage.inspection.transaction_check import TransactionsCheck, check_snapshots
from storage.inspection.unusable_files import unusable_files
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.os_error import reason_of
from storage.record import Record
from storage.stored_batch import StoredBatch

_READ_LATE: Final = (".index", ".timeindex")

Examine = Callable[[Record], str | None]
"""Says what is wrong with the meaning of a record, None for nothing."""


class Verification:
    """One log. `findings` first; the totals are complete when they end."""

    def __init__(
        self,
        files: Files,
        log: LogFiles,
        *,
        examine: Examine | None = None,
        pause: Callable[[], object] | None = None,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> None:
        """In: for a log of `__consumer_offsets`, what looks at its records; `pause` as for `LogReader`; the most
        bytes that the records of a batch may unpack to.
        """
        self._files = files
        self._log = log
        self._examine = examine
        self._reader = LogReader(files, log, pause=pause, skip=self._skip)
        self._unusable: dict[str, str] = {}
        """Why files cannot be used, by path."""
        self._skipped: list[Finding] = []
        self._has_skipped = False
        self._limit_bytes = limit_bytes
        self._recovery_point: int | None = None
        self._cut = False
        self._batches = self._records = self._bytes = 0
        self._end_offset = log.segments[0].base_offset if log.segments else 0
        self._indexes: IndexesCheck | None = None
        self._transactions = TransactionsCheck(files)
        self._bad_offset = self._end_offset

    @property
    def totals(self) -> LogTotals:
        """Of what was sound so far."""
        return LogTotals(self._batches, self._records, self._bytes, self._end_offset)

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong, from the beginning of the log to its end. A file that cannot be read is one
        finding; all others are looked at."""
        if self._log.is_whole:
            self._unusable = unusable_files(self._files, self._log.directory)
            for path, reason in self._unusable.items():
                yield _unusable(path, reason)
        yield from self._checkpoints()
        pending: BadBytes | None = None
        for piece in self._reader.pieces():
            if pending is not None:
                yield self._bad(pending, is_last=False)
                pending = None
            yield from self._enter(piece)
            if isinstance(piece, BadBytes):
                assert self._indexes is not None
                self._indexes.bad_bytes(piece)
                self._transactions.bad_bytes()
                pending = piece  # whether it is the tail shows when something follows
            else:
                yield from self._batch(piece)
        last = self._reader.log.segments[-1:]
        if pending is not None:
            yield self._bad(pending, is_last=pending.path == last[0].path)
        yield from self._leave(is_sealed=False)
        self._end_offset = max(self._end_offset, *(segment.base_offset for segment in last), 0)
        yield from self._skipped
        yield from self._snapshots()
        if (
            self._recovery_point is not None
            and self._end_offset < self._recovery_point
            and self._log.is_whole
            and not self._has_skipped
        ):
            yield self._too_short(self._recovery_point)

    def _skip(self, segment: SegmentFile, error: OSError) -> None:
        """Takes a segment that cannot be read."""
        self._has_skipped = True
        if segment.path not in self._unusable:
            self._skipped.append(_unusable(segment.path, reason_of(error, segment.path)))

    # Small files

    def _checkpoints(self) -> Iterator[Finding]:
        directory = data_directory_of(self._files, self._log)
        if directory is not None and self._log.name is not None:
            try:
                points = read_offsets(self._files, f"{directory}/{RECOVERY_POINTS}")
                self._recovery_point = points.get(self._log.name, 0)
                starts = read_offsets(self._files, f"{directory}/{LOG_START_OFFSETS}")
                self._end_offset = max(self._end_offset, starts.get(self._log.name, 0))
            except DamagedFile as error:
                yield _damaged_file(error)
            except OSError as error:
                yield _damaged_file(DamagedFile(str(error.filename or directory), reason_of(error, "")))
        if self._log.is_whole and f"{self._log.directory}/{LEADER_EPOCHS}" not in self._unusable:
            try:
                LeaderEpochs.read(self._files, self._log.directory)
            except DamagedFile as error:
                yield _damaged_file(error)

    def _too_short(self, recovery_point: int) -> Finding:
        last = self._log.segments[-1].path if self._log.segments else self._log.directory
        reason = f"the log ends at offset {self._end_offset}, but was synced up to {recovery_point}"
        return Finding(Kind.RECOVERY_POINT, Effect.STOPS_LOAD, last, None, 0, self._end_offset, reason)

    def _snapshots(self) -> Iterator[Finding]:
        if self._log.is_whole:
            # A process that writes has begun more segments meanwhile, each with a snapshot of its beginning.
            segments = list_again(self._files, self._log).segments
            end_offset = max(self._end_offset, *(segment.base_offset for segment in segments), 0)
            for path, wrong in check_snapshots(self._files, self._log.directory, end_offset):
                yield Finding(Kind.PRODUCER_SNAPSHOT, Effect.REBUILT, path, None, 0, None, wrong)

    # Batches

    def _batch(self, batch: StoredBatch) -> Iterator[Finding]:
        header = batch.header
        assert self._indexes is not None
        self._indexes.batch(batch)
        self._batches += 1
        self._records += header.records_count
        self._bytes += header.size_bytes
        self._end_offset = header.next_offset
        try:
            records = self._unpacked(batch)
            self._transactions.batch(header, records)
        except CorruptBatch as error:
            effect = Effect.STOPS_LOAD if self._examine is not None else Effect.FAILS_READS
            yield Finding(
                Kind.UNREADABLE_RECORDS,
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
                yield Finding(
                    Kind.UNDECODABLE_RECORD,
                    Effect.STOPS_LOAD,
                    batch.path,
                    batch.position,
                    0,
                    record.offset,
                    wrong,
                )

    def _unpacked(self, batch: StoredBatch) -> list[Record]:
        """Raises CorruptBatch for records that are none, or that have offsets that are not of the batch."""
        try:
            records = decode_records(batch.data, batch.header, self._limit_bytes)
        except DecompressedTooLarge:
            if self._examine is not None:
                raise
            return []  # nobody but its readers has to unpack it
        check_offsets(batch.header, records)
        return records

    def _bad(self, bad: BadBytes, *, is_last: bool) -> Finding:
        kind = Kind.OLD_FORMAT if bad.is_old_format else Kind.TORN_TAIL if is_last else Kind.DAMAGED_BATCH
        return Finding(
            kind, self._effect(bad, is_last), bad.path, bad.position, bad.length, self._bad_offset, bad.reason
        )

    def _effect(self, bad: BadBytes, is_last: bool) -> Effect:
        if bad.is_old_format:
            return Effect.STOPS_LOAD
        is_cut = is_last if self._recovery_point is None else self._bad_offset >= self._recovery_point
        if is_cut or self._cut:
            self._cut = True
            return Effect.CUT_AT_START
        return Effect.STOPS_LOAD

    # Segments

    def _enter(self, piece: Piece) -> Iterator[Finding]:
        """Takes up the indexes of a segment at its first piece."""
        if self._indexes is None or self._indexes.path != piece.path:
            yield from self._leave(is_sealed=True)
            self._indexes = IndexesCheck(self._files, piece.path, base_offset_of(self._log, piece.path))
        if isinstance(piece, BadBytes):
            self._bad_offset = max(self._end_offset, self._indexes.base_offset)

    def _leave(self, *, is_sealed: bool) -> Iterator[Finding]:
        if self._indexes is not None:
            for kind, is_rebuilt, path, wrong in self._indexes.finish(is_sealed):
                effect = Effect.REBUILT if is_rebuilt else Effect.MISLEADS_READS
                yield Finding(kind, effect, path, None, 0, self._indexes.base_offset, wrong)
            end = self._indexes.end if self._indexes.is_all_there else None
            for path, wrong, is_rebuilt in self._transactions.leave(
                self._indexes.path, end, is_sealed=is_sealed
            ):
                if path in self._unusable:
                    continue
                # From the segment of the recovery point on a start that is not clean makes them anew.
                is_rebuilt |= self._recovery_point is not None and self._end_offset > self._recovery_point
                effect = Effect.REBUILT if is_rebuilt else Effect.MISLEADS_COMMITTED_READS
                yield Finding(Kind.TRANSACTION_INDEX, effect, path, None, 0, self._indexes.base_offset, wrong)


def _unusable(path: str, reason: str) -> Finding:
    name = os.path.basename(path)
    # A sealed segment's indexes are read with its first use, all other files by a start.
    effect = Effect.FAILS_READS if name.endswith(_READ_LATE) else Effect.STOPS_LOAD
    return Finding(Kind.UNUSABLE_FILE, effect, path, None, 0, None, reason)


def _damaged_file(error: DamagedFile) -> Finding:
    return Finding(Kind.CHECKPOINT, Effect.STOPS_LOAD, error.path, error.position, 0, None, error.reason)


def check_offsets(header: BatchHeader, records: list[Record]) -> None:
    """Raises CorruptBatch unless offsets increase within the range of their batch."""
    least = header.base_offset
    for record in records:
        if not least <= record.offset <= header.last_offset:
            raise CorruptBatch(
                f"record at offset {record.offset} where {least} to {header.last_offset} is due"
            )
        least = record.offset + 1
