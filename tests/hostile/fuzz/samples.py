"""What targets of the fuzzer that are stored begin with."""

import struct
from typing import Final

from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import encode_key, encode_value
from storage.checksum import crc32c
from storage.record import Record
from tests.protocol.declared import full
from tests.storage.faulty_files import FaultyFiles

HEADER_BYTES: Final = 61
DIRECTORY: Final = "/data/__consumer_offsets-0"
SEGMENT: Final = f"{DIRECTORY}/{0:020d}.log"


def fixed_batches(data: bytes) -> bytes:
    """Return `data` as batches with correct lengths and checksums, as far as possible."""
    out = bytearray(data)
    position = 0
    while len(out) - position >= HEADER_BYTES:
        (length,) = struct.unpack_from(">i", out, position + 8)
        end = position + 12 + length
        if not position + HEADER_BYTES <= end <= len(out):
            end = len(out)
            struct.pack_into(">i", out, position + 8, end - position - 12)
        out[position + 16] = 2
        struct.pack_into(">I", out, position + 17, crc32c(bytes(out[position + 21 : end])))
        position = end
    return bytes(out)


def with_file(path: str, data: bytes) -> FaultyFiles:
    """A file system that has one file, and its directories."""
    files = FaultyFiles()
    files.mkdir("/data")
    files.mkdir(DIRECTORY)
    files.write(path, data)
    return files


def group_records() -> list[Record]:
    """Of classic groups and of offsets, tombstones among them."""
    offset = OffsetCommitKey(group="g", topic="t", partition=1)
    group = GroupMetadataKey(group="g")
    metadata = [full(GroupMetadataValue, version) for version in (3, 0)]
    for value in metadata:
        del value.members[1:]  # the second one is the first again
    pairs = [
        (encode_key(offset), encode_value(full(OffsetCommitValue, 3), 3)),
        (encode_key(offset), None),
        (encode_key(group), encode_value(metadata[0], 3)),
        (encode_key(GroupMetadataKey(group="h")), encode_value(metadata[1], 0)),
    ]
    return [Record(-1, 1000, key, value) for key, value in pairs]
