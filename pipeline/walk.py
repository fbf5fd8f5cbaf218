"""Walk a partition's log from an offset, batch by batch, while the broker appends to it and compacts it.

The walk follows offsets, not file positions, because the cleaner may replace a segment at any time. An open file
keeps its content; each next segment is opened by name. If that segment is gone, the walk lists the directory again
and continues at its offset: it finds merged batches in another segment and treats compacted ones as a gap. It skips
batches below the offset, so it returns no batch twice.
"""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from pipeline.decode.frames import Fault, Frames, read_frames
from pipeline.log_files import LogFile, LogFiles
from pipeline.segments import LogPartition, Segment, find_segments

CHUNK_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 1 << 28
_TRIES: Final = 50
_PAUSE_S: Final = 0.02
_SETTLE_S: Final = 0.1  # the longest time to wait for the rest of a partly written batch


class Chunk(NamedTuple):
    """Consecutive whole batches with valid checksums, as stored in a file."""

    path: str
    position: int
    """The file position of `data`. The first batch begins there unless it is skipped."""
    data: bytes
    frames: Frames


class Place(NamedTuple):
    """The state of a walk: a file position and the next offset."""

    path: str
    position: int
    next_offset: int


class Stop(NamedTuple):
    """The reason why a walk ended before the end of the files."""

    path: str
    position: int
    reason: str
    is_torn_tail: bool
    """No data follows: the writer is still appending, or it was killed."""


class Walk:
    """One walk. Iterate over it once, then read where and why it ended."""

    def __init__(
        self,
        files: LogFiles,
        partition: LogPartition,
        start: Place | int | None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """Prepare a walk.

        Args:
            files: the files of the log.
            partition: the partition to read.
            start: the first offset to return, or None for the first available one. A `Place` of an earlier walk
                lets the walk start at that file position if it is still valid.
            chunk_bytes: the size of a chunk in bytes.
        """
        self._files = files
        self._partition = partition
        self._hint = start if isinstance(start, Place) else None
        self._start = start.next_offset if isinstance(start, Place) else start
        self._chunk_bytes = chunk_bytes
        self.next_offset = self._start or 0
        """The next offset to read."""
        self.log_end_offset = 0
        """The end offset of all batches seen, skipped ones included."""
        self.first_available_offset: int | None = None
        """The first offset of the log; None without a log."""
        self.stop: Stop | None = None
        self.place: Place | None = None

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks from the start on.

        Raises:
            OSError: a file cannot be read.
        """
        tries = 0
        while True:
            segments = find_segments(self._files, self._partition)
            if not segments:
                return
            if self.first_available_offset is None:
                self.first_available_offset = segments[0].base_offset
                if self._start is None or self._start < segments[0].base_offset:
                    self.next_offset = segments[0].base_offset
            try:
                for segment in self._relevant(segments):
                    yield from self._segment(segment, segment is segments[-1])
                    if self.stop is not None:
                        break
                return
            except FileNotFoundError:
                tries += 1
                if tries == _TRIES:
                    raise
                time.sleep(_PAUSE_S)

    def _relevant(self, segments: list[Segment]) -> list[Segment]:
        first = 0
        for number, segment in enumerate(segments):
            if segment.base_offset <= self.next_offset:
                first = number
        return segments[first:]

    def _segment(self, segment: Segment, is_last: bool) -> Iterator[Chunk]:
        with self._files.open(segment.path) as file:
            size = file.size()  # the size of the opened file, which may differ from the listed one
            position = self._entry_position(file, segment, size, is_last)
            at_least_offset = segment.base_offset if position == 0 else self.next_offset
            self.log_end_offset = max(self.log_end_offset, at_least_offset)
            self.place = Place(segment.path, position, self.next_offset)
            length = self._chunk_bytes
            while position < size:
                data = file.read(min(length, size - position), position)
                length = self._chunk_bytes
                # Batches before the start are not validated.
                is_wanted = at_least_offset >= self.next_offset or self._reaches(data)
                frames, fault = read_frames(data, at_least_offset, check=is_wanted)
                if len(frames):
                    at_least_offset = int(frames.next_offsets[-1])
                    self.log_end_offset = max(self.log_end_offset, at_least_offset)
                    chunk = self._take(segment, position, data, frames)
                    position += frames.end
                    self.place = Place(segment.path, position, self.next_offset)
                    if chunk is not None:
                        yield chunk
                elif fault is not None and fault.is_cut and len(data) < min(fault.end, size - position):
                    length = fault.end  # a single batch larger than a chunk
                    if length > MAX_BATCH_BYTES:
                        reason = f"a batch of {length} bytes is more than {MAX_BATCH_BYTES}"
                        self.stop = Stop(segment.path, position, reason, False)
                        return
                else:
                    assert fault is not None
                    if not is_last or not self._is_growing(segment.path, size):
                        self.stop = self._fault(segment, file, position, size, fault, is_last)
                    return

    def _reaches(self, data: bytes) -> bool:
        frames, _ = read_frames(data, check=False)
        return not len(frames) or int(frames.next_offsets[-1]) > self.next_offset

    def _take(self, segment: Segment, position: int, data: bytes, frames: Frames) -> Chunk | None:
        is_new = frames.next_offsets > self.next_offset
        if not is_new.any():
            return None
        self.next_offset = int(frames.next_offsets[-1])
        return Chunk(segment.path, position, data, frames if is_new.all() else frames.select(is_new))

    def _entry_position(self, file: LogFile, segment: Segment, size: int, is_last: bool) -> int:
        """Return the start position in the first segment: the hinted one if it is still valid."""
        hint, self._hint = self._hint, None
        if hint is None or hint.path != segment.path or hint.position > size:
            return 0
        if hint.position == size:
            return size if is_last else 0
        frames, _ = read_frames(file.read(self._chunk_bytes, hint.position), check=False)
        return hint.position if len(frames) and int(frames.base_offsets[0]) >= hint.next_offset else 0

    def _is_growing(self, path: str, size: int) -> bool:
        """Return whether the writer is appending to the file. An incomplete end is then expected, not damage."""
        time.sleep(_SETTLE_S)
        return self._files.size(path) > size

    def _fault(
        self, segment: Segment, file: LogFile, position: int, size: int, fault: Fault, is_last: bool
    ) -> Stop:
        reaches_end = fault.is_cut or position + (fault.end - fault.position) == size
        is_torn = is_last and (reaches_end or _is_zero(file, position, size))
        return Stop(segment.path, position, fault.reason, is_torn)


def _is_zero(file: LogFile, position: int, size: int) -> bool:
    """Return whether only zeros follow, as in a preallocated file."""
    while position < size:
        data = file.read(CHUNK_BYTES, position)
        if data.count(0) < len(data) or not data:
            return not data
        position += len(data)
    return True
