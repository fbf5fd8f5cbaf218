"""The format of the journal: a file is a sequence of numbered frames. Each frame has the appended batches of
several logs.

    magic "GDJ1"       4
    CRC-32C            4    of the following bytes without the padding
    length             4    of the entries
    run                8    of the process that wrote it: random, and in the name of its files
    number             8    counts up, through all files of a run
    follows            8    the newest frame that was on the disk when this one was written, 0 for the first
    oldest             8    the oldest frame that still counted then
    entries
    padding            zeros up to the next multiple of 512

    an entry:
    topic id          16
    topic name         2 + n
    partition          4
    base offset        8    of the first batch
    end offset         8    one past the last
    length             4
    batches                 byte for byte as in the segment

The numbers distinguish damage from a torn tail, and old frames of a reused file from new ones. The frame with
the greatest number counts, and so do its predecessors down to its oldest. An unreadable one of these is
damage, because it was on the disk before. No frame follows a frame that was being written when the power
failed.

Padding keeps the disk from writing blocks with acknowledged bytes again, and lets a reader find complete
frames behind a broken one. A client can send bytes that look like a frame; it cannot know the run.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from storage.batch import HEADER_BYTES, check_crc, read_header
from storage.checksum import crc32c
from storage.storage_errors import CorruptBatch

BLOCK_BYTES: Final = 512
MAGIC: Final = b"GDJ1"

_CHECKSUM_PREFIX: Final = struct.Struct(">4sI")
_CHECKED_FIELDS: Final = struct.Struct(">I8sQQQ")
_HEADER_BYTES: Final = _CHECKSUM_PREFIX.size + _CHECKED_FIELDS.size
_TOPIC: Final = struct.Struct(">16sH")
_PARTITION: Final = struct.Struct(">i")
_RANGE: Final = struct.Struct(">qqI")


class LogKey(NamedTuple):
    """A log with the id of its topic: a topic that is created again under the same name has another id."""

    topic_id: bytes
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class JournalEntry(NamedTuple):
    """Complete batches that one log appended one after another."""

    key: LogKey
    base_offset: int
    end_offset: int
    data: bytes


class FrameHead(NamedTuple):
    """The identity of a frame: its run, its number and its predecessors."""

    run: bytes
    number: int
    follows: int
    oldest: int


class BrokenFrame(Exception):
    """A position does not have a complete frame."""


def encode_entries(entries: Iterable[JournalEntry]) -> bytes:
    """Encode the entries of a frame."""
    parts: list[bytes] = []
    for key, base_offset, end_offset, data in entries:
        parts += (_encode_key(key), _RANGE.pack(base_offset, end_offset, len(data)), data)
    return b"".join(parts)


def encode_frame(head: FrameHead, entries: bytes) -> bytes:
    """Return a frame with encoded entries, padded to complete blocks."""
    checked = _CHECKED_FIELDS.pack(len(entries), *head)
    start = _CHECKSUM_PREFIX.pack(MAGIC, crc32c(entries, crc32c(checked))) + checked
    return b"".join((start, entries, bytes(-(len(start) + len(entries)) % BLOCK_BYTES)))


def calculate_frame_size(entries: bytes) -> int:
    """Return the size of the frame of these entries in bytes, padding included."""
    return find_next_frame_position(_HEADER_BYTES + len(entries))


@lru_cache(maxsize=10_000)
def _encode_key(key: LogKey) -> bytes:
    topic_id, topic, partition = key
    name = topic.encode()
    return _TOPIC.pack(topic_id, len(name)) + name + _PARTITION.pack(partition)


def decode_frame_head(data: bytes, position: int, run: bytes) -> tuple[FrameHead, int]:
    """Return the head of a run's frame at a position of a file's contents, and the end position of its
    entries. Raises BrokenFrame."""
    start = position + _HEADER_BYTES
    if start > len(data):
        raise BrokenFrame("the file ends here")
    magic, crc = _CHECKSUM_PREFIX.unpack_from(data, position)
    if magic != MAGIC:
        raise BrokenFrame("no frame begins here")
    length, *head = _CHECKED_FIELDS.unpack_from(data, position + _CHECKSUM_PREFIX.size)
    if head[0] != run:
        # Checked before the checksum, because a client can write a header into every block of this range.
        raise BrokenFrame("it is of another process")
    if length > len(data) - start:
        raise BrokenFrame(f"{length} bytes of entries reach past the end of the file")
    if crc32c(memoryview(data)[position + _CHECKSUM_PREFIX.size : start + length]) != crc:
        raise BrokenFrame("its checksum does not match")
    return FrameHead(*head), start + length


def find_next_frame_position(end: int) -> int:
    """Return the position of the next frame after entries that end at `end`."""
    return end + -end % BLOCK_BYTES


def decode_entries(data: bytes, position: int, end: int) -> Iterator[JournalEntry]:
    """Yield the entries of a complete frame from a position on. The last one ends at `end`."""
    return _iterate_entries(data, position + _HEADER_BYTES, end)


def _iterate_entries(data: bytes, position: int, end: int) -> Iterator[JournalEntry]:
    # The checksum covers the entries, so an inconsistent entry is a defect of groupd.
    while position < end:
        topic_id, length = _TOPIC.unpack_from(data, position)
        position += _TOPIC.size
        topic = data[position : position + length].decode()
        position += length
        (partition,) = _PARTITION.unpack_from(data, position)
        position += _PARTITION.size
        base_offset, end_offset, length = _RANGE.unpack_from(data, position)
        position += _RANGE.size
        assert base_offset < end_offset, (topic, partition, base_offset)
        assert position + length <= end, (topic, partition, position)
        yield JournalEntry(
            LogKey(topic_id, topic, partition), base_offset, end_offset, data[position : position + length]
        )
        position += length


def split_batches(entry: JournalEntry) -> Iterator[tuple[int, int, bytes]]:
    """Yield the batches of an entry: base offset, next offset, bytes. Raises CorruptBatch for an invalid batch."""
    position = 0
    while position < len(entry.data):
        if len(entry.data) - position < HEADER_BYTES:
            raise CorruptBatch(f"{len(entry.data) - position} bytes are less than a batch header", position)
        header = read_header(entry.data, position)
        check_crc(entry.data, position, header)
        end = position + header.size_bytes
        yield header.base_offset, header.next_offset, entry.data[position:end]
        position = end
