import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import (
    BYTES_UP_TO_MAGIC,
    HEADER_BYTES,
    MAGIC,
    encode_batch,
    peek_codec,
    peek_count,
    peek_is_transactional,
    peek_magic,
    peek_size,
    read_header,
)
from storage.compression import ZSTD
from storage.record import Record
from storage.storage_errors import CorruptBatch

RECORDS = [Record(-1, 5, b"key", b"value")] * 3


@pytest.mark.parametrize("codec", [0, ZSTD])
@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_look_at_a_sound_batch_says_what_its_header_says(codec: int, is_transactional: bool) -> None:
    batch = encode_batch(RECORDS, codec=codec, is_transactional=is_transactional, producer_id=7)
    header = read_header(batch)
    assert peek_size(batch) == peek_size(b"xx" + batch, 2) == header.size_bytes == len(batch)
    assert peek_magic(batch) == MAGIC
    assert peek_codec(batch) == header.codec == codec
    assert peek_count(batch) == header.records_count == 3
    assert peek_is_transactional(batch) is header.is_transactional is is_transactional


def test_a_torn_batch_has_no_size() -> None:
    batch = encode_batch(RECORDS)
    assert {peek_size(batch[:end]) for end in range(len(batch))} == {None}


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_that_nothing_can_have_is_damage(length: int) -> None:
    batch = encode_batch(RECORDS)
    with pytest.raises(CorruptBatch):
        peek_size(batch[:8] + length.to_bytes(4, "big", signed=True) + batch[12:])


def test_a_message_of_an_older_format_has_a_size_and_its_own_magic() -> None:
    message = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\0" + bytes(9)
    assert (peek_size(message), peek_magic(message)) == (26, 0)
    assert not peek_is_transactional(message.ljust(HEADER_BYTES, b"\xff"))


@given(st.binary(max_size=100))
def test_any_bytes_may_be_looked_at(data: bytes) -> None:
    peek_is_transactional(data)
    try:
        size = peek_size(data)
    except CorruptBatch:
        return
    assert size is None or BYTES_UP_TO_MAGIC < size <= len(data)
