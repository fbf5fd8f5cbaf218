"""Snapshots of what a log knows of its producers, so that opening it walks only the batches after the latest.

    <offset>.snapshot   version int16 1 | crc-32c uint32 of all that follows | count int32 | per producer:
                        id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 |
                        timestamp int64 | coordinator epoch int32 | first offset of the open transaction int64

It tells of every batch before the offset that it is named for. -1 stands for what is not there: a producer of which
only a marker is known has no last offset, one without an open transaction no first. Of a producer's batches only
the last one is in it.

Nothing depends on one being there: it is not synced, and one that is torn or wrong is removed.

Source: Kafka's `ProducerStateManager.writeSnapshot`, `ProducerSnapshot.json`.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from storage.checksum import crc32c
from storage.errors import DamagedFile
from storage.producers.producer_entry import ROW, ProducerEntry, unpack_row
from storage.producers.producer_state import ProducerState

SNAPSHOT_SUFFIX: Final = ".snapshot"

_NAME: Final = re.compile(r"(\d{20})\.snapshot", re.ASCII)
_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_VERSION: Final = 1


def snapshot_path(directory: str, offset: int) -> str:
    """Where the snapshot of what lies before an offset is kept."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots in a directory, ascending. In: the names in it."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match is not None)


def encode_snapshot(state: ProducerState) -> bytes:
    """The file."""
    rows = state.rows()
    data = _COUNT.pack(len(rows)) + rows.encode()
    return _PREFIX.pack(_VERSION, crc32c(data)) + data


def decode_snapshot(data: bytes, path: str) -> Iterator[tuple[int, ProducerEntry]]:
    """The producers of a file, by id. Raises DamagedFile, naming `path`, before the first of them."""
    body = data[_PREFIX.size :]
    if len(body) < _COUNT.size:
        raise DamagedFile(path, f"{len(data)} bytes are no snapshot of producers")
    version, crc = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise DamagedFile(path, f"version {version} of a snapshot of producers, only {_VERSION} is known", 0)
    if crc32c(body) != crc:
        raise DamagedFile(path, f"checksum {crc32c(body):#010x} is not the stored {crc:#010x}", 2)
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * ROW.size:
        raise DamagedFile(path, f"{len(data)} bytes are not those of {count} producers", _PREFIX.size)
    return map(unpack_row, ROW.iter_unpack(body[_COUNT.size :]))
