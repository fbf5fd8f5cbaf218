"""Compaction of a log: it keeps the latest record of every key, and loses nothing else.

    log start ... first dirty offset ... end offset ... active segment
        clean            dirty            not yet

Compaction has read every record of the clean part. The dirty part ends at the active segment, or earlier: at
the first offset that is not durable or not readable, and at records younger than `min.compaction.lag.ms`.

A pass has two halves. The first reads the dirty part and maps each key to its latest offset. The second writes
every sealed segment anew with its surviving records, merges small neighbours that fit into one segment, and
swaps the new file in. Offsets never change: removed records leave gaps.

The invariant that the tests check: a pass does not change the latest value of any key for a reader. That holds
for a reader that loads the log or reads it from any offset on; before, during and after a pass; and after a
crash at any call.

A pass is a generator, so its caller controls the pace. Each step is a small piece of work on the owner's
thread. A step that yields a function needs it called in another thread, because it waits for the disk or
decodes many records.
Between steps the log may be appended to, read and even deleted; the segments at work stay in place.

Damage ends a pass, with file and position; unreadable bytes are never rewritten. A saved state of the log from
before the end of the pass is deleted first: it may contain a key with a tombstone that this pass removes.

Source: Kafka's `Cleaner`, `LogCleanerManager.cleanableOffsets` and `LogToClean`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from storage.batch import read_header
from storage.compaction.compaction_filter import (
    MAX_KEYS,
    CompactionFilter,
    CompactionTerms,
    KeyOffsetMap,
    map_keys,
)
from storage.compaction.compaction_steps import CompactionSteps, StepsTo, call, is_long
from storage.log import PartitionLog
from storage.log_segments import walk_segments
from storage.recovery.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.segment import LogSegment
from storage.segment_index import MAX_RELATIVE_OFFSET
from storage.state_file import remove_states
from storage.storage_errors import AppendFailed, CorruptBatch, LogDamaged, format_error_reason
from storage.stored_batch import StoredBatch
from storage.transaction_index import (
    AbortedTransaction,
    encode_transaction_index,
    format_transaction_index_path,
    read_aborted_transactions,
)

BUFFER_BYTES: Final = 256 * 1024
BATCHES_PER_STEP: Final = 4


class LogToClean(NamedTuple):
    """The dirty part of a log, and the sizes of its dirty and clean parts in bytes."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a record of the dirty part is older than `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """Return the dirty share of the log's bytes; 0.0 for an empty log."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Return whether compaction should run now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.dirty_ratio > min_cleanable_dirty_ratio)


def find_log_to_clean(log: PartitionLog, cleaned_to: int, up_to: int, now_ms: int) -> LogToClean:
    """Return the dirty part of a log.

    `cleaned_to` is the recorded offset below which it is clean, `up_to` the offset that consumers can read up
    to, and `now_ms` the wall clock. Raises LogDamaged, OSError.
    """
    sealed = log.segments[:-1]
    active_offset = log.segments[-1].base_offset
    first_dirty_offset = max(cleaned_to, log.log_start_offset)
    if first_dirty_offset > active_offset:
        # The log was truncated, or its files were replaced, after that offset was recorded.
        first_dirty_offset = log.log_start_offset
    limit = min(up_to, log.synced_offset)
    ends = [segment.base_offset for segment in log.segments[1:]]
    clean_bytes = dirty_bytes = 0
    end_offset = first_dirty_offset
    is_overdue = False
    for segment, segment_end in zip(sealed, ends, strict=True):
        if segment_end <= first_dirty_offset:
            clean_bytes += segment.size
            continue
        if segment_end > limit or _is_too_young(log, segment, now_ms):
            break
        dirty_bytes += segment.size
        end_offset = segment_end
        is_overdue = is_overdue or _is_overdue(log, segment, now_ms)
    return LogToClean(first_dirty_offset, end_offset, clean_bytes, dirty_bytes, is_overdue)


def _is_too_young(log: PartitionLog, segment: LogSegment, now_ms: int) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms <= 0:
        return False
    try:
        return segment.find_latest_ms(log.config.index_interval_bytes) > now_ms - lag_ms
    except CorruptBatch as error:
        raise LogDamaged(segment.path, error.reason, error.position) from error


def _is_overdue(log: PartitionLog, segment: LogSegment, now_ms: int) -> bool:
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    if oldest_ms <= 0:
        return False
    try:
        for batch in segment.walk():
            return 0 <= batch.header.max_timestamp_ms < oldest_ms
    except CorruptBatch as error:
        raise LogDamaged(segment.path, error.reason, error.position) from error
    return False


class CleanedSegment:
    """One new segment of a log. Call `append_batch` for each batch and `sync`; then either `replace_segments`
    or `abandon`."""

    def __init__(self, log: PartitionLog, base_offset: int) -> None:
        self.size = 0
        self._log = log
        self._files = log.files
        self._segment = LogSegment(log.files, log.directory, base_offset, 0)
        self._segment.start_indexes()
        self._cleaned_path = self._segment.path + CLEANED_SUFFIX
        self._swap_path = self._segment.path + SWAP_SUFFIX
        self._transaction_index_path = format_transaction_index_path(log.directory, base_offset)
        if self._files.exists(self._cleaned_path):
            self._files.unlink(self._cleaned_path)
        self._file = self._files.open_append(self._cleaned_path)
        self._buffer = bytearray()
        self._is_in_place = False

    def append_batch(self, data: bytes) -> None:
        """Append the next batch. Raises OSError."""
        header = read_header(data)
        assert header.base_offset >= self.next_offset, (self._cleaned_path, self.next_offset)
        interval_bytes = self._log.config.index_interval_bytes
        self._segment.index_batch(
            self.size, len(data), header.last_offset, header.max_timestamp_ms, interval_bytes
        )
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            self._flush()

    @property
    def next_offset(self) -> int:
        """Return the lowest possible offset of the next batch."""
        return self._segment.next_offset

    def _flush(self) -> None:
        self._file.write(bytes(self._buffer))
        self._buffer.clear()

    def sync(self) -> None:
        """Sync all appended batches. It blocks. It is safe in another thread if nothing else uses the object
        meanwhile. Raises OSError."""
        self._flush()
        self._file.fdatasync()

    def abandon(self) -> None:
        """Remove the file, unless it is already part of the log. Never raises OSError."""
        if self._is_in_place:
            return
        self._file.close()
        with suppress(OSError):
            if self._files.exists(self._transaction_index_path + SWAP_SUFFIX):
                # Without the other files it would count as the index of an existing segment.
                self._files.unlink(self._transaction_index_path + SWAP_SUFFIX)
                self._log.sync_directory()
            for path in filter(self._files.exists, (self._cleaned_path, self._swap_path)):
                self._files.unlink(path)

    def replace_segments(
        self,
        old: Sequence[LogSegment],
        end_offset: int,
        cleaned_to: int,
        aborted: Sequence[AbortedTransaction],
    ) -> Generator[Callable[[], None], None, None]:
        """Replace other segments by this one. The order of the steps is safe for a crash between any two of
        them.

        The caller runs each yielded function in another thread.

        Args:
            old: The segments to replace.
            end_offset: The offset at which the next segment begins.
            cleaned_to: The offset below which the pass has read every record.
            aborted: The aborted transactions for the index of the new segment.

        Raises:
            OSError: nothing has changed.
            AppendFailed: a later step failed and has poisoned the log.
        """
        files, directory = self._files, self._log.directory
        sync_directory = self._log.sync_directory
        segment = self._segment
        assert self._file.size() == self.size, (self._cleaned_path, self.size)
        if aborted:
            files.write_atomically(
                self._transaction_index_path + SWAP_SUFFIX, encode_transaction_index(aborted)
            )
        files.replace(self._cleaned_path, self._swap_path)
        yield sync_directory
        self._log.require_open()
        segment.adopt_file(self._file)
        segment.size = self.size
        self._is_in_place = True
        self._log.replace_segments(old, segment, cleaned_to)
        if self._log.segment_listener is not None:
            self._log.segment_listener.on_compacted(segment.base_offset, end_offset, aborted)
        try:
            for number, replaced in enumerate(old):
                # The rename gives the new file the name of the first old segment.
                replaced.delete(keeps_log=number == 0)
            yield sync_directory
            self._log.require_open()
            files.replace(self._swap_path, segment.path)
            if aborted:
                yield sync_directory
                self._log.require_open()
                files.replace(self._transaction_index_path + SWAP_SUFFIX, self._transaction_index_path)
            segment.write_indexes()
            yield segment.sync_indexes
            yield sync_directory
        except OSError as error:
            failure = AppendFailed(
                directory, f"cannot put a compacted segment in place: {format_error_reason(error, directory)}"
            )
            raise self._log.poison(failure) from error


class CompactionResult(NamedTuple):
    """The result of a pass."""

    from_offset: int
    end_offset: int
    """The offset up to which the log is clean."""
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    records_without_key: int
    """The number of removed records without a key."""

    def __str__(self) -> str:
        return (
            f"dirty section {self.from_offset} to {self.end_offset}; {self.bytes_before} bytes became "
            f"{self.bytes_after}, {self.records_before} records {self.records_after}"
        )


class Compaction:
    """One pass over one log. `result` is set at the end of `iterate_steps`."""

    def __init__(
        self, log: PartitionLog, log_to_clean: LogToClean, terms: CompactionTerms, max_keys: int = MAX_KEYS
    ) -> None:
        self.result: CompactionResult | None = None
        self._log = log
        self._log_to_clean = log_to_clean
        self._terms = terms
        self._max_keys = max_keys

    def iterate_steps(self) -> CompactionSteps:
        """Yield the steps of the pass. Throw an OSError of a yielded function into the generator.

        Raises:
            LogDamaged: a segment is damaged.
            DamagedFile: a file beside the segments is damaged.
            LogClosed, LogPoisoned: the log was closed or failed meanwhile.
            AppendFailed, OSError: a step failed on the disk. The log is unchanged, or poisoned if its state is
                unknown.
        """
        log, todo = self._log, self._log_to_clean
        log.pin()
        try:
            keys = KeyOffsetMap(todo.first_dirty_offset)
            if todo.first_dirty_offset < todo.end_offset:
                yield from self._map_keys(keys)
            if keys.end_offset <= todo.first_dirty_offset:
                self.result = CompactionResult(
                    todo.first_dirty_offset, todo.first_dirty_offset, 0, 0, 0, 0, 0
                )
                return
            yield from self._rewrite_segments(keys)
        finally:
            log.unpin()

    def _map_keys(self, keys: KeyOffsetMap) -> CompactionSteps:
        todo = self._log_to_clean
        *sealed, active = self._log.segments
        assert todo.end_offset <= min(active.base_offset, self._log.compactable_offset), (active.path, todo)
        batches = self._walk_segments(sealed, active.base_offset)
        for step in map_keys(batches, todo.first_dirty_offset, todo.end_offset, self._max_keys, keys):
            yield step
            self._log.require_open()
        assert keys.end_offset <= todo.end_offset, (active.path, keys.end_offset, todo)

    def _walk_segments(self, segments: Sequence[LogSegment], end_offset: int) -> Iterator[StoredBatch]:
        """Yield all batches of adjacent sealed segments. It uses no index, because a wrong index would lose
        batches."""
        return walk_segments(segments, 0, end_offset, self._log.config.index_interval_bytes)

    def _rewrite_segments(self, keys: KeyOffsetMap) -> CompactionSteps:
        if remove_states(self._log.files, self._log.directory, keys.end_offset):
            yield self._log.sync_directory
            self._log.require_open()
        survivors = CompactionFilter(
            keys, self._terms, read_aborted_transactions(self._log.files, self._log.directory)
        )
        segments = self._log.segments
        below = [
            (segment, following.base_offset)
            for segment, following in pairwise(segments)
            if segment.base_offset < keys.end_offset
        ]
        bytes_before = sum(segment.size for segment, _ in below)
        bytes_after = 0
        for group, end_offset in _group_segments(below, self._log.config.segment_bytes):
            cleaned = CleanedSegment(self._log, group[0].base_offset)
            try:
                changes = yield from self._write_surviving_batches(
                    cleaned, self._walk_segments(group, end_offset), survivors
                )
                if changes or len(group) > 1:
                    yield cleaned.sync
                    self._log.require_open()
                    aborted = survivors.find_still_aborted(group[0].base_offset, end_offset)
                    cleaned_to = min(end_offset, keys.end_offset)
                    yield from cleaned.replace_segments(group, end_offset, cleaned_to, aborted)
                else:
                    cleaned.abandon()
            except BaseException:
                cleaned.abandon()
                raise
            bytes_after += cleaned.size
        survivors.finish()
        self.result = CompactionResult(
            self._log_to_clean.first_dirty_offset,
            keys.end_offset,
            bytes_before,
            bytes_after,
            survivors.records_before,
            survivors.records_after,
            survivors.records_without_key,
        )

    def _write_surviving_batches(
        self, cleaned: CleanedSegment, batches: Iterator[StoredBatch], survivors: CompactionFilter
    ) -> StepsTo[int]:
        """Write the surviving batches of a group; return the number of changed batches.

        The last batch always stays, so that the new segment ends at the same offset as the old ones.
        """
        changes = 0
        for number, (batch, is_last) in enumerate(_mark_last(batches)):
            keeps_range = is_last or survivors.is_last_of_producer(batch)
            try:
                data = yield from call(
                    partial(survivors.filter_batch, batch, keeps_range=keeps_range), is_long=is_long(batch)
                )
            except CorruptBatch as error:
                raise LogDamaged(batch.path, error.reason, batch.position) from error
            self._log.require_open()
            if data is not batch.data:
                changes += 1
            if data is not None:
                cleaned.append_batch(data)
            reaches_its_end = cleaned.next_offset == batch.header.next_offset
            assert reaches_its_end or (data is None and not is_last), (batch.path, batch.position)
            if number % BATCHES_PER_STEP == 0:
                yield None
                self._log.require_open()
        return changes


def _group_segments(
    segments: Sequence[tuple[LogSegment, int]], max_bytes: int
) -> Iterator[tuple[list[LogSegment], int]]:
    """Yield groups of adjacent segments that fit into one segment at their current sizes, each with its end
    offset.

    `segments` has each segment with its end offset. `max_bytes` is the maximum size of a group.
    """
    group: list[LogSegment] = []
    size = group_end = 0
    for segment, end_offset in segments:
        is_too_far = group and end_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
        if group and (size + segment.size > max_bytes or is_too_far):
            yield group, group_end
            group, size = [], 0
        group.append(segment)
        size += segment.size
        group_end = end_offset
    if group:
        yield group, group_end


def _mark_last(batches: Iterator[StoredBatch]) -> Iterator[tuple[StoredBatch, bool]]:
    """Yield each batch with the information whether it is the last one."""
    held = next(batches, None)
    if held is None:
        return
    for batch in batches:
        yield held, False
        held = batch
    yield held, True
