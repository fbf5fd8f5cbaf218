"""All batches of a log on disk, from the first segment to the last, beside whoever writes it."""

from collections.abc import Callable, Generator, Iterator
from typing import Final

from storage.batch import HEADER_BYTES
from storage.files import File, Files
from storage.inspection.directory_reader import LogFiles, SegmentFile, list_again
from storage.inspection.segment_scan import BadBytes, Piece, SegmentScan

_LOOKS: Final = 10
"""How often the end of a log is read again before it counts as torn."""


class LogReader:
    """Reads a log once, and then what was appended since."""

    def __init__(
        self,
        files: Files,
        log: LogFiles,
        *,
        from_offset: int = 0,
        pause: Callable[[], object] | None = None,
        skip: Callable[[SegmentFile, OSError], object] | None = None,
    ) -> None:
        """In: the least offset of interest (segments wholly below it are not opened); what to do before an
        unfinished batch at the end is looked at once more, as it may be being written; `skip` takes a segment that
        cannot be read, and the reading goes on with the next one.
        """
        self.log = log
        self.next_offset = from_offset
        """Where the reading goes on."""
        self._files = files
        self._pause = pause
        self._skip = skip
        self._segment = -1
        self._position = 0
        self._mark = (0, b"")
        """Where the last batch began that was read, and its header."""

    def pieces(self) -> Iterator[Piece]:
        """Sound batches and bad bytes, in order; memory for one batch at a time.

        The walk ends where each segment ended when it was opened. Where a segment is gone since it was listed, the
        directory is listed again: retention may have taken it, or compaction put another in its place.
        Raises OSError, unless segments that cannot be read are skipped.
        """
        number, relisted = 0, 0
        while number < len(self.log.segments):
            segment, end_offset = self.log.segments[number], self.log.end_offset(number)
            number += 1
            if end_offset is not None and end_offset <= self.next_offset:
                continue
            try:
                is_outdated = yield from self._open_and_read(segment, end_offset, relisted < _LOOKS)
            except OSError as error:
                if self._skip is None:
                    raise
                self._skip(segment, error)
                continue
            if is_outdated:
                number, relisted = 0, relisted + 1

    def _open_and_read(
        self, segment: SegmentFile, end_offset: int | None, may_list_again: bool
    ) -> Generator[Piece, None, bool]:
        """As `_read`. Raises OSError."""
        try:
            file = self._files.open_read(segment.path)
        except FileNotFoundError:
            if may_list_again and self._is_outdated():
                return True
            raise
        try:
            return (yield from self._read(file, segment, end_offset, may_list_again))
        finally:
            file.close()

    def _is_outdated(self) -> bool:
        """Lists the segments again; whether others are there now."""
        before, self.log = self.log, list_again(self._files, self.log)
        return before.segments != self.log.segments

    def appended(self) -> Iterator[Piece]:
        """What `pieces` did not find yet, segments that were begun since included. Raises OSError."""
        self.log = list_again(self._files, self.log)
        return self.pieces()

    def _read(
        self, file: File, segment: SegmentFile, end_offset: int | None, may_list_again: bool
    ) -> Generator[Piece, None, bool]:
        """Out, at its end: whether the list of segments changed, so that bad bytes may be none."""
        position, next_offset = 0, segment.base_offset
        if segment.base_offset == self._segment and self._is_where_it_was(file):
            position, next_offset = self._position, max(self.next_offset, next_offset)
        scan = SegmentScan(
            file, segment.base_offset, end_offset=end_offset, position=position, next_offset=next_offset
        )
        for piece in scan.pieces():
            found = piece
            if end_offset is None and isinstance(piece, BadBytes) and piece.is_incomplete:
                again = self._look_again(file, scan, piece)
                if again is None:
                    return False
                found = again
            if isinstance(found, BadBytes):
                if may_list_again and self._is_outdated():
                    return True
                if self._segment != segment.base_offset:
                    self._mark = (0, b"")
                end = found.position + (0 if found.is_incomplete else found.length)
                self._segment, self._position = segment.base_offset, end
                yield found
            elif found.header.next_offset > self.next_offset:
                self._segment, self._position = segment.base_offset, found.position + len(found.data)
                self._mark = (found.position, found.data[:HEADER_BYTES])
                self.next_offset = found.header.next_offset
                yield found
        return False

    def _is_where_it_was(self, file: File) -> bool:
        """Whether a segment that was read in part still has there what it had.

        A compaction puts another file in its place; a log may be cut and grow again.
        """
        at, header = self._mark
        return self._position <= file.size() and file.pread(len(header), at) == header

    def _look_again(self, file: File, scan: SegmentScan, torn: BadBytes) -> Piece | None:
        """What becomes of an unfinished batch at the end; None when its writer took it back."""
        piece: Piece | None = torn
        for _ in range(_LOOKS if self._pause is not None else 0):
            assert self._pause is not None
            self._pause()
            again = SegmentScan(file, scan.base_offset, position=torn.position, next_offset=scan.next_offset)
            piece = next(again.pieces(), None)
            if not (isinstance(piece, BadBytes) and piece.is_incomplete):
                break
        return piece
