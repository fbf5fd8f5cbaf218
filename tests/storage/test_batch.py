"""Batches against kio, kafka-python and aiokafka, codecs that share nothing with this one."""

import io
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, RecordHeader
from kio.records.schema import Record as KioRecord
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from storage.batch import (
    HEADER_BYTES,
    TRANSACTIONAL,
    assign_offsets,
    check_crc,
    decode_records,
    encode_batch,
    encode_key_value_batch,
    read_header,
    rewrite_batch,
    walk_batches,
)
from storage.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from storage.record import KeyValue, Record
from storage.storage_errors import CorruptBatch, UnsupportedMagic
from tests.storage.batches import DRAWN_RECORDS, RECORDS, at_offsets, record
from tests.storage.kafka_python import DefaultRecordBatch

RECORD = Record(
    -1,
    1700000000000,
    bytes.fromhex("00010003677270 0003666f6f00000000"),
    bytes.fromhex("0003 0000000000000064 00000005 0000 0000018bcfe56800"),
)


def kafka_python(batch: bytes) -> list[Record]:
    """Decoded by kafka-python, which also checks the checksum."""
    decoder = DefaultRecordBatch(bytearray(batch))
    assert decoder.validate_crc()
    return [
        Record(item.offset, item.timestamp, item.key, item.value, tuple(item.headers)) for item in decoder
    ]


def test_an_offset_commit_is_the_bytes_that_kio_writes() -> None:
    written = io.BytesIO()
    new = NewRecordBatch(
        producer_id=i64(-1),
        producer_epoch=i16(-1),
        base_sequence=i32(-1),
        attributes=i16(0),
        records=(
            KioRecord(
                attributes=i8(0),
                timestamp=TZAwareMicros.parse(datetime.fromtimestamp(1700000000, UTC)),
                offset=i64(12),
                key=RECORD.key,
                value=RECORD.value,
                headers=(RecordHeader(key=b"h", value=None),),
            ),
        ),
    )
    write_new_batch(written, new)
    assert encode_batch([RECORD._replace(headers=(("h", None),))], 12) == written.getvalue()


@given(DRAWN_RECORDS, st.integers(0, 2**40))
def test_kafka_python_reads_what_is_written(records: list[Record], base_offset: int) -> None:
    batch = encode_batch(records, base_offset, producer_id=7, producer_epoch=3, base_sequence=90)
    assert kafka_python(batch) == at_offsets(records, base_offset)
    decoder = DefaultRecordBatch(bytearray(batch))
    assert (decoder.producer_id, decoder.producer_epoch, decoder.base_sequence) == (7, 3, 90)
    assert decoder.max_timestamp == max(item.timestamp_ms for item in records)


@given(RECORDS)
def test_kio_reads_what_is_written(records: list[Record]) -> None:
    timed = [item._replace(timestamp_ms=abs(item.timestamp_ms) % 10**12) for item in records]
    batch = encode_batch(timed, 5)
    read, _ = read_batch(batch, 0)
    assert [item.offset for item in read.records] == list(range(5, 5 + len(records)))
    assert [item.value for item in read.records] == [item.value for item in records]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_what_aiokafka_writes_is_read(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=9,
        producer_epoch=1,
        base_sequence=4,
        batch_size=1 << 20,
    )
    records = [Record(-1, 500 + number, b"key", b"value" * 30, (("h", b"x"),)) for number in range(50)]
    for number, item in enumerate(records):
        builder.append(number, item.timestamp_ms, item.key, item.value, list(item.headers))
    batch = bytes(builder.build())
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.codec == codec
    assert (header.is_transactional, header.is_control) == (True, False)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)
    assert header.last_sequence == 53
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (500, 549)
    assert decode_records(batch) == at_offsets(records, 0)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@given(records=RECORDS, base_offset=st.integers(0, 2**62))
def test_a_batch_comes_back_in_every_codec(codec: int, records: list[Record], base_offset: int) -> None:
    batch = encode_batch(records, base_offset, codec=codec)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.next_offset) == (base_offset, base_offset + len(records))
    assert decode_records(batch) == at_offsets(records, base_offset)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_batch_of_key_values_is_that_of_the_records(codec: int, is_transactional: bool) -> None:
    pairs: list[KeyValue] = [(b"one", b"1"), (b"two", None), (bytes(9000), b"3")]
    encoded = encode_key_value_batch(
        pairs,
        1_700_000_000_000,
        base_offset=2**40,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=3,
        base_sequence=0,
        attributes=codec | (TRANSACTIONAL if is_transactional else 0),
    )
    assert encoded == encode_batch(
        [Record(-1, 1_700_000_000_000, key, value) for key, value in pairs],
        2**40,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=is_transactional,
        codec=codec,
    )


def test_a_batch_of_no_records_is_refused() -> None:
    with pytest.raises(ValueError, match="record"):
        encode_batch([])


def test_a_control_batch_says_so() -> None:
    marker = Record(-1, 5, bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
    header = read_header(encode_batch([marker], is_transactional=True, is_control=True, producer_id=1))
    assert (header.is_transactional, header.is_control) == (True, True)


def test_sequence_numbers_wrap() -> None:
    header = read_header(encode_batch([record(1), record(2), record(3)], base_sequence=2**31 - 2))
    assert header.last_sequence == 0


@given(RECORDS, st.data())
def test_any_changed_bit_is_found(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(encode_batch(records, 3))
    # Base offset and leader epoch are the log's, outside the checksum.
    position = data.draw(st.integers(16, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptBatch):
        check_crc(batch, 0, read_header(batch))


@given(RECORDS)
def test_a_batch_cut_short_is_found(records: list[Record]) -> None:
    batch = encode_batch(records)
    for length in range(len(batch)):
        with pytest.raises(CorruptBatch):
            check_crc(batch[:length], 0, read_header(batch[:length]))


@given(st.binary(max_size=150))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    with suppress(CorruptBatch):
        assert read_header(data).size_bytes >= HEADER_BYTES


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_format_is_named(magic: int) -> None:
    batch = bytearray(encode_batch([record(1)]))
    batch[16] = magic
    with pytest.raises(UnsupportedMagic) as caught:
        read_header(b"...." + batch, 4)
    assert (caught.value.magic, caught.value.position) == (magic, 4)


def test_a_walk_stops_before_a_batch_that_is_cut_short() -> None:
    first, second = encode_batch([record(1), record(2)], 10), encode_batch([record(3)], 12)
    for length in range(len(first), len(first + second)):
        assert [
            (position, header.base_offset) for position, header in walk_batches((first + second)[:length])
        ] == [(0, 10)]
    assert [position for position, _ in walk_batches(first + second)] == [0, len(first)]


@given(RECORDS, st.data())
def test_a_rewritten_batch_keeps_its_range_and_the_chosen_records(
    records: list[Record], data: st.DataObject
) -> None:
    codec = data.draw(st.sampled_from([NONE, GZIP, ZSTD]))
    original = encode_batch(records, 40, producer_id=5, producer_epoch=1, base_sequence=2, codec=codec)
    header = read_header(original)
    kept = [item for item in decode_records(original) if data.draw(st.booleans())]
    batch = rewrite_batch(header, kept)
    rewritten = read_header(batch)
    check_crc(batch, 0, rewritten)
    assert decode_records(batch) == kept
    assert (rewritten.base_offset, rewritten.next_offset) == (header.base_offset, header.next_offset)
    assert (rewritten.producer_id, rewritten.last_sequence) == (header.producer_id, header.last_sequence)


def test_a_delete_horizon_stays_beside_the_times_of_the_records() -> None:
    original = encode_batch([record(1), record(2)], 7, producer_id=5, producer_epoch=1, base_sequence=2)
    records = decode_records(original)
    batch = rewrite_batch(read_header(original), records, 999_999_999)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.delete_horizon_ms == 999_999_999
    assert decode_records(batch) == records
    assert header.max_timestamp_ms == read_header(original).max_timestamp_ms
    assert DefaultRecordBatch(bytearray(batch)).max_timestamp == header.max_timestamp_ms
    assert read_header(rewrite_batch(header, records[:1])).delete_horizon_ms is None


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
def test_a_batch_without_records_keeps_its_latest_time_and_no_codec(codec: int) -> None:
    original = encode_batch([record(1), record(2)], 7, is_transactional=True, codec=codec)
    header = read_header(original)
    empty = read_header(rewrite_batch(header, [], 5))
    assert (empty.records_count, empty.codec, empty.delete_horizon_ms) == (0, NONE, None)
    assert (empty.base_timestamp_ms, empty.max_timestamp_ms) == (-1, header.max_timestamp_ms)
    assert empty.is_transactional
    assert empty.next_offset == header.next_offset


def test_assigned_offsets_leave_the_checksum_alone() -> None:
    batch = assign_offsets(encode_batch([record(1), record(2)]), 900, 4)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.partition_leader_epoch == 4
    assert [item.offset for item in decode_records(batch)] == [900, 901]


def test_log_append_time_replaces_every_time() -> None:
    batch = assign_offsets(encode_batch([record(1), record(2)]), 0, 0, log_append_time_ms=12345)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.is_log_append_time
    assert header.max_timestamp_ms == 12345
    assert {item.timestamp_ms for item in decode_records(batch)} == {12345}
    assert DefaultRecordBatch(bytearray(batch)).timestamp_type == 1


def test_a_wrong_maximum_is_corrected() -> None:
    claimed = assign_offsets(encode_batch([record(1)]), 0, 0, max_timestamp_ms=2**50)
    corrected = assign_offsets(claimed, 0, 0, max_timestamp_ms=1001)
    check_crc(corrected, 0, read_header(corrected))
    assert corrected == encode_batch([record(1)])
