"""Compaction: a log that keeps the latest record of every key, and loses nothing else.

One pass has two halves. The first reads the dirty part and notes the latest offset of each key
(`key_offsets.py`). The second writes every sealed segment anew with what survives (`survivors.py`), small
neighbours together as long as they fit in one segment, and puts the new file in the place of the old ones
(`recovery/swap.py`). Offsets never change: what is gone leaves gaps.

The law, which the tests hold against it: whoever loads the log, or reads it from any offset on and knows each key's
latest value, gets the same before a pass, in the middle of it, after it, and after a crash at any call.

A pass is a generator, so that whoever runs it decides about the pace. Each step is a small piece of work on the
owner's thread; a step that yields a function asks for it to be called in another thread, since it waits for the
disk. In between the log may be appended to, read, and even be deleted; the segments under work stay where they are.

Damage ends a pass where it stands, with file and position. What could not be read is never rewritten.

A state of the log from before the end of the pass goes first: it may hold a key whose tombstone is about to go.

Source: Kafka's `Cleaner`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from storage.compaction.cleanable import Cleanable
from storage.compaction.cleaned_segment import CleanedSegment
from storage.compaction.key_offsets import MAX_KEYS, KeyOffsets, map_keys
from storage.compaction.survivors import Survivors, Terms
from storage.errors import CorruptBatch, LogDamaged
from storage.index import MAX_RELATIVE_OFFSET
from storage.log import PartitionLog
from storage.segment import MAX_SEGMENT_BYTES, Segment
from storage.state_file import remove_states
from storage.stored_batch import StoredBatch
from storage.transaction_index import read_aborted
from storage.walk import walk_segments

Step = Callable[[], None] | None
"""None: that was a piece of work. A function: to be called in another thread before the pass goes on."""
Steps = Generator[Step, None, None]

STEP_BATCHES: Final = 4


class Compacted(NamedTuple):
    """What a pass came to."""

    from_offset: int
    end_offset: int
    """The log is clean up to here."""
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    keyless: int
    """Records without a key, which went."""

    def __str__(self) -> str:
        return (
            f"dirty section {self.from_offset} to {self.end_offset}; {self.bytes_before} bytes became "
            f"{self.bytes_after}, {self.records_before} records {self.records_after}"
        )


class Compaction:
    """One pass over one log. Run `steps` to its end; `result` is there then."""

    def __init__(self, log: PartitionLog, todo: Cleanable, terms: Terms, max_keys: int = MAX_KEYS) -> None:
        self.result: Compacted | None = None
        self._log = log
        self._todo = todo
        self._terms = terms
        self._max_keys = max_keys

    def steps(self) -> Steps:
        """Does it. An OSError of a function that was asked for is to be thrown into the generator.

        Raises LogDamaged, DamagedFile; LogClosed or LogPoisoned when the log was closed or failed meanwhile;
        AppendFailed, OSError where the disk refuses, after which the log is as it was, or poisoned where nobody can
        tell.
        """
        log, todo = self._log, self._todo
        log.pin()
        try:
            keys = KeyOffsets(todo.first_dirty_offset)
            if todo.first_dirty_offset < todo.end_offset:
                yield from self._map(keys)
            if keys.end_offset <= todo.first_dirty_offset:
                self.result = Compacted(todo.first_dirty_offset, todo.first_dirty_offset, 0, 0, 0, 0, 0)
                return
            yield from self._rewrite(keys)
        finally:
            log.unpin()

    def _map(self, keys: KeyOffsets) -> Steps:
        todo = self._todo
        *sealed, active = self._log.segments
        assert todo.end_offset <= min(active.base_offset, self._log.compactable_offset), (active.path, todo)
        batches = self._walk(sealed, active.base_offset)
        for _ in map_keys(batches, todo.first_dirty_offset, todo.end_offset, self._max_keys, keys):
            yield None
            self._log.require_open()
        assert keys.end_offset <= todo.end_offset, (active.path, keys.end_offset, todo)

    def _walk(self, segments: Sequence[Segment], end_offset: int) -> Iterator[StoredBatch]:
        """All batches of sealed neighbours. No index is trusted: what it passed over would be lost."""
        return walk_segments(segments, 0, end_offset, self._log.config.index_interval_bytes)

    def _rewrite(self, keys: KeyOffsets) -> Steps:
        if remove_states(self._log.files, self._log.directory, keys.end_offset):
            yield self._log.sync_directory
            self._log.require_open()
        survivors = Survivors(keys, self._terms, read_aborted(self._log.files, self._log.directory))
        segments = self._log.segments
        below = [
            (segment, following.base_offset)
            for segment, following in pairwise(segments)
            if segment.base_offset < keys.end_offset
        ]
        bytes_before = sum(segment.size for segment, _ in below)
        bytes_after = 0
        for group, end_offset in _groups(below, min(self._log.config.segment_bytes, MAX_SEGMENT_BYTES)):
            cleaned = CleanedSegment(self._log, group[0].base_offset)
            try:
                changes = yield from self._fill(cleaned, self._walk(group, end_offset), survivors)
                if changes or len(group) > 1:
                    yield cleaned.sync
                    self._log.require_open()
                    aborted = survivors.still_aborted(group[0].base_offset, end_offset)
                    cleaned_to = min(end_offset, keys.end_offset)
                    yield from cleaned.take_the_place_of(group, end_offset, cleaned_to, aborted)
                else:
                    cleaned.abandon()
            except BaseException:
                cleaned.abandon()
                raise
            bytes_after += cleaned.size
        survivors.finish()
        self.result = Compacted(
            self._todo.first_dirty_offset,
            keys.end_offset,
            bytes_before,
            bytes_after,
            survivors.records_before,
            survivors.records_after,
            survivors.keyless,
        )

    def _fill(
        self, cleaned: CleanedSegment, batches: Iterator[StoredBatch], survivors: Survivors
    ) -> Generator[Step, None, int]:
        """Writes what survives of a group; gives the number of batches that do not stay as they are.

        The last one stays in any case, so that the new segment reaches as far as the old ones did.
        """
        changes = 0
        for number, (batch, is_last) in enumerate(_with_last(batches)):
            try:
                data = survivors.of(batch, keeps_range=is_last)
            except CorruptBatch as error:
                raise LogDamaged(batch.path, error.reason, batch.position) from error
            if data is not batch.data:
                changes += 1
            if data is not None:
                cleaned.add(data)
            reaches_its_end = cleaned.next_offset == batch.header.next_offset
            assert reaches_its_end or (data is None and not is_last), (batch.path, batch.position)
            if number % STEP_BATCHES == 0:
                yield None
                self._log.require_open()
        return changes


def _groups(segments: Sequence[tuple[Segment, int]], max_bytes: int) -> Iterator[tuple[list[Segment], int]]:
    """Runs of neighbours that fit in one segment together, as they are today. In and out: with the end offset."""
    group: list[Segment] = []
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


def _with_last(batches: Iterator[StoredBatch]) -> Iterator[tuple[StoredBatch, bool]]:
    """Each batch, and whether it is the last."""
    held = next(batches, None)
    if held is None:
        return
    for batch in batches:
        yield held, False
        held = batch
    yield held, True
