import gzip
import struct
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from storage.storage_errors import CorruptBatch, DecompressedTooLarge

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 50))
def test_what_is_packed_unpacks(codec: int, data: bytes, repeat: int) -> None:
    assert decompress(codec, compress(codec, data * repeat)) == data * repeat


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_the_first_buffer_unpacks(codec: int) -> None:
    data = bytes(range(256)) * 8000
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("limit_bytes", [0, 1, 99_999])
def test_nothing_unpacks_past_the_limit(codec: int, limit_bytes: int) -> None:
    packed = compress(codec, bytes(100_000))
    assert decompress(codec, packed, 100_000) == bytes(100_000)
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, limit_bytes)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=200))
def test_any_bytes_unpack_or_are_refused(codec: int, data: bytes) -> None:
    with suppress(CorruptBatch):
        assert len(decompress(codec, data, 1000)) <= 1000


@pytest.mark.parametrize("codec", CODECS)
def test_a_packed_section_that_is_cut_short_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(range(256)) * 10)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed[: len(packed) // 2])


def test_a_raw_snappy_block_unpacks() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"block" * 100))) == b"block" * 100


def test_snappy_in_several_framed_blocks_unpacks() -> None:
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (b"one" * 50, b"two" * 50)]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    framed += b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert decompress(SNAPPY, framed) == b"one" * 50 + b"two" * 50
    with pytest.raises(DecompressedTooLarge):
        decompress(SNAPPY, framed, 299)


@given(data=st.binary(max_size=500), repeat=st.integers(1, 400))
def test_lz4_frames_are_such_as_the_java_client_reads(data: bytes, repeat: int) -> None:
    frame = compress(LZ4, data * repeat)
    flags, block_size = frame[4], frame[5]
    assert (flags >> 6, flags >> 5 & 1) == (1, 1)  # version 1, blocks that do not depend on each other
    assert bytes(cramjam.lz4.decompress(frame)) == data * repeat
    position, limit_bytes = 7, 1 << (8 + 2 * (block_size >> 4))
    while (length := int.from_bytes(frame[position : position + 4], "little") & 0x7FFFFFFF) != 0:
        assert length <= limit_bytes
        position += 4 + length
    assert position + 4 == len(frame)


def test_gzip_in_several_members_unpacks() -> None:
    assert decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, b"")
    with pytest.raises(ValueError, match="codec"):
        compress(codec, b"")
