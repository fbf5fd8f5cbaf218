"""The codecs of compressed batches, read only as far as a bound allows.

A compressed batch states nowhere how large it unpacks, so each codec is driven in a way that never allocates
past the caller's limit: gzip through zlib's own bound, snappy by the length it declares, lz4 and zstd into a
buffer of fixed size that grows up to the limit. Only gzip is in the standard library; the others come from
`cramjam`, loaded the first time that such a batch is seen.

Snappy has two forms: the raw block, and the stream of blocks that the Java client writes (snappy-java's
"xerial" framing: an 8-byte magic, two version integers, then length-prefixed raw blocks).
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

from storage.storage_errors import CorruptBatch, DecompressedTooLarge

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

DEFAULT_LIMIT_BYTES: Final = 256 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_FIRST_BUFFER_BYTES: Final = 64 * 1024
# Version 1, independent blocks of at most 64 KiB, no block checksums. The last byte is the checksum of the
# header.
_LZ4_FRAME_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31  # flag in the length of a block: the block is not compressed
_LZ4_END: Final = bytes(4)


def decompress(codec: int, data: bytes | memoryview, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Decompress the records section of a batch.

    Args:
        codec: Attribute bits 0 to 2 of the batch, not 0.
        data: The compressed bytes.
        limit_bytes: The maximum size of the result.

    Raises:
        CorruptBatch: the codec is unknown, or rejects the bytes.
        DecompressedTooLarge: the result exceeds the limit.
    """
    return bytes(decompress_to_buffer(codec, data, limit_bytes))


def decompress_to_buffer(codec: int, data: bytes | memoryview, limit_bytes: int) -> bytes | bytearray:
    """Decompress the records section of a batch without a final copy. The caller must not keep the result.
    Raises CorruptBatch, DecompressedTooLarge."""
    unpacker = _DECOMPRESSORS.get(codec)
    if unpacker is None:
        raise CorruptBatch(f"unknown compression codec {codec}")
    return unpacker(bytes(data), limit_bytes)


def compress(codec: int, data: bytes) -> bytes:
    """Compress the records section of a batch like the Java client (snappy with xerial framing).

    Raises ValueError for an unknown codec.
    """
    if codec == GZIP:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(data) + packer.flush()
    import cramjam

    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(data))
        return _XERIAL_MAGIC + struct.pack(">iii", 1, 1, len(block)) + block
    if codec == LZ4:
        return _compress_lz4(data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"unknown compression codec {codec}")


def _compress_lz4(data: bytes) -> bytes:
    """Return the frame that Kafka's `Lz4BlockOutputStream` writes. Kafka's reader rejects frames with
    dependent blocks."""
    import cramjam

    parts = [_LZ4_FRAME_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            parts += (struct.pack("<I", len(packed)), packed)
        else:
            parts += (struct.pack("<I", len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _decompress_gzip(data: bytes, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    while data:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            part = unpacker.decompress(data, room + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip data is damaged: {error}") from error
        if len(part) > room:
            raise DecompressedTooLarge(limit_bytes)
        if not unpacker.eof:
            raise CorruptBatch("gzip data ends early")
        parts.append(part)
        room -= len(part)
        data = unpacker.unused_data
    return b"".join(parts)


def _decompress_snappy(data: bytes, limit_bytes: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, limit_bytes, limit_bytes)
    parts: list[bytes] = []
    room = limit_bytes
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if position + 4 > len(data):
            raise CorruptBatch("snappy data ends inside a block length")
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise CorruptBatch(f"snappy block of {length} bytes does not fit")
        block = _decompress_snappy_block(data[position : position + length], room, limit_bytes)
        parts.append(block)
        room -= len(block)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, room: int, limit_bytes: int) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise DecompressedTooLarge(limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy data is damaged: {error}") from error


def _decompress_to_growing_buffer(name: str, data: bytes, limit_bytes: int) -> bytearray:
    import cramjam

    decompress_into = getattr(cramjam, name).decompress_into
    size = min(limit_bytes, max(_FIRST_BUFFER_BYTES, 4 * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            del buffer[decompress_into(data, buffer) :]
            return buffer
        except cramjam.DecompressionError as error:
            # The library uses one error class for a full buffer and for damaged data. Only the text differs.
            if "write whole buffer" not in str(error):
                raise CorruptBatch(f"{name} data is damaged: {error}") from error
            if size >= limit_bytes:
                raise DecompressedTooLarge(limit_bytes) from error
            size = min(limit_bytes, size * 4)


def _decompress_lz4(data: bytes, limit_bytes: int) -> bytearray:
    return _decompress_to_growing_buffer("lz4", data, limit_bytes)


def _decompress_zstd(data: bytes, limit_bytes: int) -> bytearray:
    return _decompress_to_growing_buffer("zstd", data, limit_bytes)


_DECOMPRESSORS: Final[dict[int, Callable[[bytes, int], bytes | bytearray]]] = {
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}
