import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from storage.log_validator import validate_batch
from storage.record import Record
from storage.record_scan import DecompressionBudget, OverBudget
from storage.storage_errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecord,
    StorageError,
    UnsupportedMagic,
)
from tests.storage.batches import RECORDS, record


def patched(batch: bytes, form: str, position: int, value: int) -> bytes:
    """Return the batch with one header field changed and a valid checksum."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@given(records=RECORDS)
def test_a_good_batch_is_described(codec: int, records: list[Record]) -> None:
    valid = validate_batch(encode_batch(records, codec=codec, producer_id=3, base_sequence=8))
    times = [item.timestamp_ms for item in records]
    assert (valid.min_timestamp_ms, valid.max_timestamp_ms) == (min(times), max(times))
    keyless = [number for number, item in enumerate(records) if item.key is None]
    assert valid.first_null_key == (keyless[0] if keyless else None)
    assert (valid.header.records_count, valid.header.base_sequence) == (len(records), 8)


def test_exactly_one_batch_is_accepted() -> None:
    batch = encode_batch([record(1)])
    for data in (b"", batch + batch, batch + b"x"):
        with pytest.raises(InvalidRecord):
            validate_batch(data)


def test_a_batch_that_is_not_all_there_is_corrupt() -> None:
    batch = encode_batch([record(1)])
    for length in range(1, len(batch)):
        with pytest.raises(CorruptBatch):
            validate_batch(batch[:length])


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_told_apart(magic: int) -> None:
    batch = bytearray(encode_batch([record(1)]))
    batch[16] = magic
    with pytest.raises(UnsupportedMagic):
        validate_batch(bytes(batch))


@given(st.data())
def test_a_changed_bit_under_the_checksum_is_corrupt(data: st.DataObject) -> None:
    batch = bytearray(encode_batch([record(1), record(2)]))
    batch[data.draw(st.integers(17, len(batch) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptBatch):
        validate_batch(bytes(batch))


@pytest.mark.parametrize(
    ("form", "position", "value"),
    [
        pytest.param(">q", 0, 5, id="base offset"),
        pytest.param(">h", 21, 0x20, id="control"),
        pytest.param(">h", 21, 5, id="unknown codec"),
        pytest.param(">i", 23, 2, id="too many offsets"),
        pytest.param(">i", 23, 0, id="too few offsets"),
        pytest.param(">i", 57, 1, id="count below contents"),
        pytest.param(">i", 57, 3, id="count above contents"),
        pytest.param(">i", 57, 0, id="no records"),
        pytest.param(">q", 43, 77, id="producer without sequence"),
    ],
)
def test_a_producers_mistake_is_invalid(form: str, position: int, value: int) -> None:
    with pytest.raises(InvalidRecord):
        validate_batch(patched(encode_batch([record(1), record(2)]), form, position, value))


@pytest.mark.parametrize("count", [1, 3])
def test_a_count_that_the_offsets_confirm_but_the_contents_do_not_is_invalid(count: int) -> None:
    batch = patched(encode_batch([record(1), record(2)]), ">i", 23, count - 1)
    with pytest.raises(InvalidRecord):
        validate_batch(patched(batch, ">i", 57, count))


def test_offsets_inside_a_batch_must_be_consecutive() -> None:
    batch = encode_batch([record(1), record(2)])
    # The second record's offset delta, 1, is the byte before its key length and key.
    position = batch.rindex(b"\x04k2") - 1
    assert batch[position] == 2
    with pytest.raises(InvalidRecord) as caught:
        validate_batch(patched(batch, ">b", position, 6))
    assert caught.value.record_index == 1


def test_where_a_producer_claims_append_time_its_header_says_the_time_of_all() -> None:
    batch = patched(encode_batch([record(1, 50), record(2, 40)]), ">h", 21, 0x08)
    valid = validate_batch(batch)
    assert (valid.min_timestamp_ms, valid.max_timestamp_ms) == (50, 50)


def test_a_bomb_is_refused() -> None:
    batch = encode_batch([Record(-1, 0, b"k", bytes(1_000_000))], codec=ZSTD)
    assert len(batch) < 1000
    with pytest.raises(DecompressedTooLarge):
        validate_batch(batch, limit_bytes=500_000)


def test_the_batches_of_a_request_share_its_budget() -> None:
    batch = encode_batch([Record(-1, 0, b"k", bytes(1_000_000))], codec=ZSTD)
    budget = DecompressionBudget(bytes_left=1_500_000, items_left=1_000)
    validate_batch(batch, budget=budget)
    with pytest.raises(OverBudget):
        validate_batch(batch, budget=budget)


@given(st.binary(max_size=120))
def test_any_bytes_are_valid_or_refused(data: bytes) -> None:
    with pytest.raises(StorageError):
        validate_batch(data)
