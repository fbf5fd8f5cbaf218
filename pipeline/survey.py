"""Survey a partition from an offset: the readable range, its pieces, and findings such as damage.

A survey verifies the checksums of all batches before anything is decoded. It returns the positions of sound batches
and the outcome of every transaction in them. As for a `read_committed` consumer, it ends at the *last stable
offset*: the first offset of the oldest open transaction. The outcome of a transaction is in its marker, which may
follow its records at any distance.

Source: KIP-98.
"""

from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from pipeline.decode.frames import Frames, read_frames
from pipeline.decode.rows import Finding
from pipeline.log_files import LogFiles
from pipeline.segments import LogPartition
from pipeline.walk import CHUNK_BYTES, Chunk, Place, Stop, Walk
from storage.batch import decode_records
from storage.storage_errors import CorruptBatch

_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class Aborted(NamedTuple):
    """An aborted transaction. Its records are skipped."""

    producer_id: int
    first_offset: int
    marker_offset: int


class Piece(NamedTuple):
    """Consecutive batches in one file."""

    path: str
    position: int
    length: int
    first_offset: int
    next_offset: int
    records: int
    """Includes markers."""


class Survey(NamedTuple):
    partition: LogPartition
    first_offset: int
    next_offset: int
    """The end of the pieces: the last stable offset, the end of the log, or the start of damage."""
    pieces: list[Piece]
    aborted: list[Aborted]
    """In order of their markers; includes markers beyond the end of the pieces."""
    findings: list[Finding]
    """Permanent findings: damage and lost records."""
    passing: list[Finding]
    """Findings that may resolve later: a torn tail, an open transaction."""
    place: Place | None
    """The start position of the next survey from the same end."""

    @property
    def bytes(self) -> int:
        """The size of all pieces."""
        return sum(piece.length for piece in self.pieces)

    def findings_until(self, next_offset: int) -> list[Finding]:
        """Return the findings below `next_offset`: gaps and aborted transactions."""
        found = []
        records = sum(piece.records for piece in self.pieces if piece.next_offset <= next_offset)
        number = self.partition.number
        missing = next_offset - self.first_offset - records
        if missing > 0:
            detail = f"{missing} of {missing + records} offsets have no record, as after compaction"
            place = (self.first_offset, next_offset - 1, self.partition.directory, None)
            found.append(Finding(number, "gap", *place, detail))
        for aborted in self.aborted:
            if self.first_offset <= aborted.marker_offset < next_offset:
                detail = (
                    f"a transaction of producer {aborted.producer_id} was aborted: ingest omits its offsets"
                )
                place = (aborted.marker_offset, aborted.marker_offset, self.partition.directory, None)
                found.append(Finding(number, "aborted_transaction", *place, detail))
        return found


def survey(
    files: LogFiles,
    partition: LogPartition,
    start: Place | int | None,
    chunk_bytes: int = CHUNK_BYTES,
    until: int | None = None,
) -> Survey:
    """Survey a partition.

    Args:
        files: the files of the log.
        partition: the partition.
        start: the first offset; None for the first available one.
        chunk_bytes: the size of a read in bytes.
        until: the end offset; None for the end of the log.

    Raises:
        OSError: a file cannot be read.
    """
    walk = Walk(files, partition, start, chunk_bytes)
    asked = start.next_offset if isinstance(start, Place) else start
    transactions = _Transactions()
    pieces: list[Piece] = []
    place, log_end_offset = None, None
    for chunk in walk:
        frames = chunk.frames
        if until is not None:
            frames = frames.select(frames.next_offsets <= until)
        if len(frames):
            transactions.pass_by(chunk._replace(frames=frames))
            pieces.append(_piece(chunk, frames))
        if len(frames) < len(chunk.frames):
            break
    else:
        place, log_end_offset = walk.place, walk.next_offset
    first_offset = max(asked or 0, walk.first_available_offset or 0)
    if log_end_offset is None:
        log_end_offset = pieces[-1].next_offset if pieces else first_offset
    stable_offset = min(transactions.open.values(), default=log_end_offset)
    return Survey(
        partition,
        first_offset,
        stable_offset,
        _cut(files, pieces, stable_offset),
        transactions.aborted,
        _lasting(walk, partition, asked),
        _passing(walk.stop, partition, transactions, stable_offset, log_end_offset),
        place,
    )


def _piece(chunk: Chunk, frames: Frames) -> Piece:
    begin, end = int(frames.positions[0]), int(frames.positions[-1] + frames.sizes[-1])
    return Piece(
        chunk.path,
        chunk.position + begin,
        end - begin,
        int(frames.base_offsets[0]),
        int(frames.next_offsets[-1]),
        int(frames.field("records_count").sum()),
    )


def _cut(files: LogFiles, pieces: list[Piece], next_offset: int) -> list[Piece]:
    """Return the pieces up to an offset at which a batch begins."""
    kept = [piece for piece in pieces if piece.next_offset <= next_offset]
    for piece in pieces:
        if piece.first_offset < next_offset < piece.next_offset:
            with files.open(piece.path) as file:
                data = file.read(piece.length, piece.position)
            frames, _ = read_frames(data, check=False)
            before = frames.select(frames.base_offsets < next_offset)
            if len(before):
                kept.append(_piece(Chunk(piece.path, piece.position, data, frames), before))
    return kept


def _lasting(walk: Walk, partition: LogPartition, asked: int | None) -> list[Finding]:
    found = []
    number, directory, available = partition.number, partition.directory, walk.first_available_offset
    if asked is not None and available is not None and asked < available:
        detail = (
            f"the log now begins at offset {available}: earlier records were deleted before they were read"
        )
        found.append(Finding(number, "lost_history", asked, available - 1, directory, None, detail))
    stop = walk.stop
    if stop is not None and not stop.is_torn_tail:
        detail = f"{stop.reason}: ingest reads nothing after it"
        found.append(Finding(number, "damage", walk.next_offset, None, stop.path, stop.position, detail))
    elif asked is not None and available is not None and walk.log_end_offset < asked:
        end = walk.log_end_offset
        detail = f"the log now ends at offset {end}, but was read up to {asked}"
        found.append(Finding(number, "lost_history", end, asked - 1, directory, None, detail))
    return found


def _passing(
    stop: Stop | None, partition: LogPartition, transactions: "_Transactions", stable_offset: int, end: int
) -> list[Finding]:
    found = []
    number = partition.number
    if stop is not None and stop.is_torn_tail:
        detail = f"{stop.reason}: a later ingest reads it when it is complete"
        found.append(Finding(number, "torn_tail", end, None, stop.path, stop.position, detail))
    if transactions.open:
        producer = min(transactions.open, key=transactions.open.__getitem__)
        detail = (
            f"a transaction of producer {producer} is open: a later ingest reads from its first offset on"
        )
        place = (stable_offset, end - 1, partition.directory, None)
        found.append(Finding(number, "open_transaction", *place, detail))
    return found


class _Transactions:
    """Tracks open and aborted transactions."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """The first offset by producer id."""
        self.aborted: list[Aborted] = []

    def pass_by(self, chunk: Chunk) -> None:
        """Process the next batches."""
        frames = chunk.frames
        chosen = np.flatnonzero(frames.is_transactional)
        if not len(chosen):
            return
        producers, bases = frames.field("producer_id"), frames.base_offsets
        controls, counts = frames.is_control, frames.field("records_count")
        for index in chosen:
            producer = int(producers[index])
            if controls[index]:
                self._end(chunk, int(index), producer)
            elif counts[index]:
                self.open.setdefault(producer, int(bases[index]))

    def _end(self, chunk: Chunk, index: int, producer: int) -> None:
        header = chunk.frames.header(index)
        begin = int(chunk.frames.positions[index])
        try:
            markers = decode_records(memoryview(chunk.data)[begin:], header)
        except CorruptBatch:
            return  # an unreadable marker ends no transaction
        for marker in markers:
            if marker.key is None or len(marker.key) < _CONTROL_KEY.size:
                continue
            _, kind = _CONTROL_KEY.unpack_from(marker.key)
            if kind in (_ABORT, _COMMIT):
                first_offset = self.open.pop(producer, marker.offset)
                if kind == _ABORT:
                    self.aborted.append(Aborted(producer, first_offset, marker.offset))
