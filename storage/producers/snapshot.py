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
from storage.producers.producer_state import MAX_SEQUENCE, ProducerEntry, ProducerState, SequencedBatch

SNAPSHOT_SUFFIX: Final = ".snapshot"

_NAME: Final = re.compile(r"(\d{20})\.snapshot", re.ASCII)
_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1
_NONE: Final = -1


def snapshot_path(directory: str, offset: int) -> str:
    """Where the snapshot of what lies before an offset is kept."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots in a directory, ascending. In: the names in it."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match is not None)


def encode_snapshot(state: ProducerState) -> bytes:
    """The file."""
    entries = list(_encoded(state))
    data = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREFIX.pack(_VERSION, crc32c(data)) + data


def _encoded(state: ProducerState) -> Iterator[bytes]:
    for producer_id, entry in state.entries():
        last = entry.batches[-1] if entry.batches else None
        yield _ENTRY.pack(
            producer_id,
            entry.epoch,
            _NONE if last is None else last.last_sequence,
            _NONE if last is None else last.last_offset,
            0 if last is None else last.last_offset - last.first_offset,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            _NONE if entry.transaction_offset is None else entry.transaction_offset,
        )


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
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedFile(path, f"{len(data)} bytes are not those of {count} producers", _PREFIX.size)
    return map(_decoded, _ENTRY.iter_unpack(body[_COUNT.size :]))


def _decoded(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, first = fields
    entry = ProducerEntry()
    entry.epoch, entry.coordinator_epoch = epoch, coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & MAX_SEQUENCE if last_sequence >= 0 else last_sequence
        entry.batches.append(
            SequencedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms)
        )
    entry.transaction_offset = first if first >= 0 else None
    return producer_id, entry
