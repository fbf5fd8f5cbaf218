"""Walking a partition's log from an offset on, batch by batch, while others write it and clean it.

The way goes by offsets, never by positions in files. The cleaner may replace a segment under the walker: an
open file keeps what it held, and the next one is looked up by name when its turn comes. If a segment has gone, the
directory is listed again and the walk goes on at the offset it has reached: what is merged elsewhere is found
there, what was compacted away is a gap. Batches are skipped until the offset, so nothing comes twice.
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
_SETTLE_S: Final = 0.1  # how long a batch may take from its first byte to its last


class Chunk(NamedTuple):
    """Some whole, sound batches, as they lie in a file."""

    path: str
    position: int
    """Of the first byte of `data`, where the first batch begins unless it is skipped."""
    data: bytes
    frames: Frames


class Place(NamedTuple):
    """Where a walk stands: a position in a file, and the offset that is next."""

    path: str
    position: int
    next_offset: int


class Stop(NamedTuple):
    """Why a walk ended before the end of the files."""

    path: str
    position: int
    reason: str
    is_torn_tail: bool
    """Nothing of the log follows: it is being written, or the writer was killed."""


class Walk:
    """One walk; iterate over it once, then ask where and why it ended."""

    def __init__(
        self,
        files: LogFiles,
        partition: LogPartition,
        start: Place | int | None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """In: the first offset of interest, None for the first there is; a place from an earlier walk saves the
        way to it, where it still holds.
        """
        self._files = files
        self._partition = partition
        self._hint = start if isinstance(start, Place) else None
        self._start = start.next_offset if isinstance(start, Place) else start
        self._chunk_bytes = chunk_bytes
        self.next_offset = self._start or 0
        """Where the walk has come to."""
        self.log_end_offset = 0
        """The end of all batches that were seen, skipped ones included."""
        self.first_available_offset: int | None = None
        """Where the log begins, None when there is no log."""
        self.stop: Stop | None = None
        self.place: Place | None = None

    def __iter__(self) -> Iterator[Chunk]:
        """The chunks from the start on. Raises OSError."""
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
            size = file.size()  # of what was opened, which may have taken the place of what was listed
            position = self._entry_position(file, segment, size, is_last)
            at_least_offset = segment.base_offset if position == 0 else self.next_offset
            self.log_end_offset = max(self.log_end_offset, at_least_offset)
            self.place = Place(segment.path, position, self.next_offset)
            length = self._chunk_bytes
            while position < size:
                data = file.read(min(length, size - position), position)
                length = self._chunk_bytes
                # What lies before the start is not looked at closely.
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
                    length = fault.end  # one batch larger than a chunk
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
        """Where to begin in the first segment: at the hint, if what was there still is."""
        hint, self._hint = self._hint, None
        if hint is None or hint.path != segment.path or hint.position > size:
            return 0
        if hint.position == size:
            return size if is_last else 0
        frames, _ = read_frames(file.read(self._chunk_bytes, hint.position), check=False)
        return hint.position if len(frames) and int(frames.base_offsets[0]) >= hint.next_offset else 0

    def _is_growing(self, path: str, size: int) -> bool:
        """Whether somebody is just writing: what ends a file is then no finding, and whole the next time."""
        time.sleep(_SETTLE_S)
        return self._files.size(path) > size

    def _fault(
        self, segment: Segment, file: LogFile, position: int, size: int, fault: Fault, is_last: bool
    ) -> Stop:
        reaches_end = fault.is_cut or position + (fault.end - fault.position) == size
        is_torn = is_last and (reaches_end or _is_zero(file, position, size))
        return Stop(segment.path, position, fault.reason, is_torn)


def _is_zero(file: LogFile, position: int, size: int) -> bool:
    """Whether nothing but zeros follows, as in a file that was made longer than what was written."""
    while position < size:
        data = file.read(CHUNK_BYTES, position)
        if data.count(0) < len(data) or not data:
            return not data
        position += len(data)
    return True
