from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.record import (
    SMALL_LIMIT,
    KeyValue,
    Record,
    decode_record_section,
    encode_key_values,
    encode_records,
    encode_records_at,
)
from storage.storage_errors import CorruptBatch
from tests.storage.batches import DRAWN_RECORDS, RECORDS, TIMESTAMPS, at_offsets, keys_and_values, record

LONG = st.integers(0, SMALL_LIMIT + 20).map(bytes)


@given(DRAWN_RECORDS, TIMESTAMPS, st.integers(0, 2**62))
def test_a_section_comes_back(records: list[Record], base_timestamp_ms: int, base_offset: int) -> None:
    section = encode_records(records, base_timestamp_ms)
    decoded = decode_record_section(section, len(records), base_offset, base_timestamp_ms)
    assert decoded == at_offsets(records, base_offset)


@pytest.mark.parametrize("length", [0, 63, 64, 8191, 8192, 100_000])
def test_lengths_around_the_size_of_their_encoding_come_back(length: int) -> None:
    records = [Record(7, 5, bytes(length), bytes(length), (("h" * length, bytes(length)),))]
    assert decode_record_section(encode_records(records, 5), 1, 7, 5) == records


KEY_VALUES = st.lists(
    st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=40)) | st.tuples(LONG, LONG), min_size=1
)


@given(KEY_VALUES)
def test_key_values_are_encoded_as_records_without_headers(pairs: list[KeyValue]) -> None:
    records = [Record(-1, 5, key, value) for key, value in pairs]
    assert encode_key_values(pairs) == encode_records(records, 5)


@pytest.mark.parametrize("count", [SMALL_LIMIT - 1, SMALL_LIMIT + 1])
def test_many_key_values_are_encoded_as_records(count: int) -> None:
    pairs: list[KeyValue] = [(b"key", b"value")] * count
    assert encode_key_values(pairs) == encode_records([Record(-1, 0, *pair) for pair in pairs], 0)


@pytest.mark.parametrize("length", range(SMALL_LIMIT - 24, SMALL_LIMIT + 4))
def test_a_key_value_around_the_size_of_the_table_is_encoded_as_a_record(length: int) -> None:
    for pair in (
        (bytes(length), b""),
        (b"", bytes(length)),
        (bytes(length // 2), bytes(length - length // 2)),
    ):
        assert encode_key_values([pair]) == encode_records([Record(-1, 0, *pair)], 0)


@given(RECORDS)
def test_records_keep_the_gaps_between_them(records: list[Record]) -> None:
    sparse = [record._replace(offset=100 + 3 * number) for number, record in enumerate(records)]
    section = encode_records_at(sparse, 0, 90)
    assert decode_record_section(section, len(sparse), 90, 0) == sparse


def test_append_time_replaces_the_records_own() -> None:
    section = encode_records([record(1), record(2)], 0)
    times = [decoded.timestamp_ms for decoded in decode_record_section(section, 2, 0, 0, 777)]
    assert times == [777, 777]


def test_a_header_key_that_is_not_text_keeps_its_bytes() -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    section = encode_records([Record(0, 0, None, None, ((key, b"v"),))], 0)
    assert b"\xff\xfe" in section
    assert encode_records(decode_record_section(section, 1, 0, 0), 0) == section


@given(RECORDS)
def test_a_wrong_count_is_refused(records: list[Record]) -> None:
    section = encode_records(records, 0)
    for count in (len(records) - 1, len(records) + 1, 2**31 - 1):
        with pytest.raises(CorruptBatch):
            decode_record_section(section, count, 0, 0)


@given(RECORDS)
def test_every_proper_prefix_is_refused(records: list[Record]) -> None:
    section = encode_records(records, 0)
    for length in range(len(section)):
        with pytest.raises(CorruptBatch):
            decode_record_section(section[:length], len(records), 0, 0)


@given(st.binary(max_size=200), st.integers(0, 10))
def test_any_bytes_are_records_or_refused(section: bytes, count: int) -> None:
    with suppress(CorruptBatch):
        assert len(decode_record_section(section, count, 0, 0)) == count


@given(RECORDS, st.data())
def test_any_changed_byte_gives_records_or_a_refusal(records: list[Record], data: st.DataObject) -> None:
    section = bytearray(encode_records(records, 0))
    position = data.draw(st.integers(0, len(section) - 1))
    section[position] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptBatch):
        assert len(decode_record_section(bytes(section), len(records), 0, 0)) == len(records)


def pairs_or_refusal(section: bytes, count: int) -> object:
    try:
        return keys_and_values(section, count)
    except CorruptBatch:
        return CorruptBatch


def records_or_refusal(section: bytes, count: int) -> object:
    try:
        return [(found.key, found.value) for found in decode_record_section(section, count, 0, 0)]
    except CorruptBatch:
        return CorruptBatch


LARGE = st.builds(
    lambda record, key, value: record._replace(key=bytes(key), value=bytes(value)),
    st.sampled_from([record(1), record(2, 2**40)]),
    st.sampled_from([0, 1, 63, 64, 8000, 8191, 8192, 9000]),
    st.sampled_from([0, 1, 63, 64, 8000, 8191, 8192, 9000]),
)


@given(DRAWN_RECORDS | st.lists(LARGE, min_size=1, max_size=3), st.data())
def test_keys_and_values_alone_are_those_of_the_records(records: list[Record], data: st.DataObject) -> None:
    section = encode_records(records, data.draw(st.sampled_from([0, 1000, records[0].timestamp_ms])))
    assert keys_and_values(section, len(records)) == [(one.key, one.value) for one in records]
    position = data.draw(st.integers(0, len(section) - 1))
    changed = section[:position] + data.draw(st.binary(max_size=2)) + section[position + 1 :]
    for damaged in (changed, section[:position]):
        assert pairs_or_refusal(damaged, len(records)) == records_or_refusal(damaged, len(records))


def test_a_record_that_ends_before_its_headers_is_refused() -> None:
    section = bytearray(encode_records([record(1, 0)], 0))
    section[-1] = 2  # one header, as a zigzag number
    assert pairs_or_refusal(bytes(section), 1) == records_or_refusal(bytes(section), 1) == CorruptBatch


@given(st.binary(max_size=200), st.integers(0, 10))
def test_keys_and_values_of_any_bytes(section: bytes, count: int) -> None:
    assert pairs_or_refusal(section, count) == records_or_refusal(section, count)
