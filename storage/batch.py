"""Record batches, magic 2: the unit of writes, checksums, syncs and reads.

    base_offset int64 | batch_length int32 | partition_leader_epoch int32 | magic int8 | crc uint32 |
    attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64 |
    producer_id int64 | producer_epoch int16 | base_sequence int32 | records_count int32 | records

The checksum (CRC-32C) covers everything after itself, so the log can give a batch its base offset and leader
epoch without touching the bytes that the producer signed. `batch_length` counts the bytes after itself.
Attribute bits: 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon. Compaction removes
records but never the header's range: a walk over a log steps by `base_offset + last_offset_delta + 1`, over
gaps and empty batches alike.

The `peek_` functions read single header fields of unchecked bytes, which may be torn, of an older format, or
not a batch. A broker uses them to refuse a batch before it looks at the checksum or the records.
`read_header` reads the header of a sound batch.

Source: KIP-98, Kafka's `DefaultRecordBatch`, `ByteBufferLogInputStream`, `ProduceRequest.validateRecords`.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from storage.checksum import crc32c
from storage.compression import DEFAULT_LIMIT_BYTES, NONE, compress, decompress_to_buffer
from storage.record import (
    KeyValue,
    Record,
    decode_record_section,
    encode_key_values,
    encode_records,
    encode_records_at,
)
from storage.storage_errors import CorruptBatch, UnsupportedMagic

HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12  # the bytes up to and including batch_length, which it does not count
MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD
MAGIC: Final = 2
CRC_START: Final = 21
MIN_OLD_MESSAGE_BYTES: Final = 26
NO_TIMESTAMP: Final = -1
NO_PRODUCER: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qiibI")
_SIGNED: Final = struct.Struct(">hiqqqhii")
_OFFSET_AND_EPOCH: Final = struct.Struct(">qii")


class BatchHeader(NamedTuple):
    """The header of a batch: the 61 bytes before the records. Timestamps are in milliseconds, -1 for none."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Return the last offset of the batch's range. Compaction may have removed the record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Return the first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of the last record, which wraps around after 2^31 - 1; -1 without a
        producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """The codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 are undefined."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the log has set the time of all records, which is `max_timestamp_ms` then. Otherwise each
        record has the time of its producer."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction. Control batches that end transactions are included."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether a broker wrote the batch for brokers and consumers. Applications never get its records."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The Unix time in milliseconds after which compaction may remove the batch's tombstones and markers;
        None before compaction has set it. The base timestamp field holds it then, and record times are
        relative to it."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None


def encode_batch(
    records: Sequence[Record],
    base_offset: int = 0,
    *,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    codec: int = NONE,
) -> bytes:
    """Encode one batch of consecutive records with the timestamp type CreateTime.

    `records` must not be empty. Their `offset` is ignored: the first record gets `base_offset`. `codec` is that of
    `compression`. Raises ValueError for no records or an unknown codec.
    """
    if not records:
        raise ValueError("a batch needs a record")
    base_timestamp_ms = records[0][1]
    section = encode_records(records, base_timestamp_ms)
    count = len(records)
    max_timestamp_ms = base_timestamp_ms if count == 1 else max([record[1] for record in records])
    attributes = codec
    if codec != NONE:
        section = compress(codec, section)
    if is_transactional:
        attributes |= TRANSACTIONAL
    if is_control:
        attributes |= CONTROL
    return _assemble(
        section,
        (
            attributes,
            count - 1,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
        base_offset,
        leader_epoch,
    )


def encode_key_value_batch(
    pairs: Sequence[KeyValue],
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
    *,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """Encode one batch of an internal topic at its place in the log.

    Args:
        pairs: key and value of each record, at least one; the records have no headers.
        timestamp_ms: the time of every record, or `NO_TIMESTAMP`.
        base_offset: the offset of the first record.
        leader_epoch: the leader epoch of the log.
        producer_id: the producer of a transaction; `NO_PRODUCER` for other records.
        producer_epoch: its epoch; -1 without a producer.
        base_sequence: its sequence number; -1 without one.
        attributes: the codec as in `compression`, and `TRANSACTIONAL` for records of a transaction.

    Returns: the bytes that `encode_batch` makes of the same records.
    Raises ValueError for an unknown codec.
    """
    count = len(pairs)
    assert count, "a batch needs a record"
    section = encode_key_values(pairs)
    if attributes & CODEC_MASK:
        section = compress(attributes & CODEC_MASK, section)
    return _assemble(
        section,
        (
            attributes,
            count - 1,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
        base_offset,
        leader_epoch,
    )


def _assemble(
    section: bytes,
    signed_fields: tuple[int, int, int, int, int, int, int, int],
    base_offset: int,
    leader_epoch: int,
) -> bytes:
    """Put the header before an uncompressed or compressed records section. `signed_fields` are the header
    fields from the attributes on."""
    signed = _SIGNED.pack(*signed_fields) + section
    return (
        _PREFIX.pack(base_offset, MIN_BATCH_LENGTH + len(section), leader_epoch, MAGIC, crc32c(signed))
        + signed
    )


def rewrite_batch(header: BatchHeader, kept: Sequence[Record], delete_horizon_ms: int | None = None) -> bytes:
    """Return a batch with only the records in `kept`, at their offsets and with the same offset range.

    Args:
        header: The header of the original batch. Codec, producer fields and leader epoch stay.
        kept: The records to keep. A batch without records is not compressed and has no delete horizon.
        delete_horizon_ms: The Unix time in milliseconds after which tombstones may be removed. None: the batch has
            no horizon, even if the header has one.

    Source: Kafka's `MemoryRecords.filterTo` and `DefaultRecordBatch.writeEmptyHeader`.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    if not kept:
        base_timestamp_ms, max_timestamp_ms = NO_TIMESTAMP, header.max_timestamp_ms
        section = b""
    else:
        base_timestamp_ms = kept[0].timestamp_ms
        if delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON
            base_timestamp_ms = delete_horizon_ms
        max_timestamp_ms = header.max_timestamp_ms
        if not header.is_log_append_time:
            max_timestamp_ms = max(record.timestamp_ms for record in kept)
        section = encode_records_at(kept, base_timestamp_ms, header.base_offset)
        if header.codec != NONE:
            attributes |= header.codec
            section = compress(header.codec, section)
    return _assemble(
        section,
        (
            attributes,
            header.last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            len(kept),
        ),
        header.base_offset,
        header.partition_leader_epoch,
    )


# The constructor of the class without its argument handling, because this runs for every batch of a walk.
_create_header = tuple.__new__


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`. The records may be missing, and the CRC is not checked.

    Raises UnsupportedMagic for another format, and CorruptBatch if fewer than 61 bytes follow or a size is
    impossible.
    """
    available = len(buffer) - position
    if available >= HEADER_BYTES:
        fields = _HEADER.unpack_from(buffer, position)
        if (
            fields[3] == MAGIC
            and fields[1] >= MIN_BATCH_LENGTH
            and min(fields[0], fields[6], fields[12]) >= 0
        ):
            return _create_header(BatchHeader, fields)
    if available >= 17 and buffer[position + 16] != MAGIC:
        raise UnsupportedMagic(buffer[position + 16], position)
    if available < HEADER_BYTES:
        raise CorruptBatch(f"{available} bytes are less than a batch header", position)
    batch_length = fields[1]
    if batch_length < MIN_BATCH_LENGTH:
        raise CorruptBatch(f"batch length {batch_length} is less than a header", position)
    raise CorruptBatch("negative offset, offset range or record count", position)


def is_old_message(data: bytes) -> bool:
    """Return whether `data` begins with a complete message of magic 0 or 1 with a valid checksum, from an old
    broker.

    Zeros and torn bytes are not such a message. Source: Kafka's `LegacyRecord`.
    """
    if len(data) < MIN_OLD_MESSAGE_BYTES or data[16] > 1:
        return False
    length, crc = struct.unpack_from(">iI", data, 8)
    if not MIN_OLD_MESSAGE_BYTES <= length + LOG_OVERHEAD <= len(data):
        return False
    return bool(crc32(data[16 : length + LOG_OVERHEAD]) == crc)


def check_crc(buffer: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Check that the batch is complete and its checksum is valid. Raises CorruptBatch."""
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        raise CorruptBatch(
            f"a batch of {header.size_bytes} bytes ends after {len(buffer) - position} bytes", position
        )
    computed = crc32c(memoryview(buffer)[position + CRC_START : end])
    if computed != header.crc:
        raise CorruptBatch(f"checksum {computed:#010x} is not the stored {header.crc:#010x}", position)


def walk_batches(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch, up to an incomplete last one, as after a fetch.

    Raises the errors of `read_header`.
    """
    position = 0
    while len(buffer) - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if position + header.size_bytes > len(buffer):
            return
        yield position, header
        position += header.size_bytes


def decode_records(
    batch: bytes | memoryview, header: BatchHeader | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> list[Record]:
    """Return the records of one complete batch at the start of `batch`, which may be longer.

    `header` is the header, if it was read already. `limit_bytes` bounds the uncompressed size. The CRC is not
    checked. Raises CorruptBatch, with positions within the uncompressed records section.
    """
    if header is None:
        header = read_header(batch)
    section = bytes(decompress_records(batch, header, limit_bytes))
    append_time_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else None
    return decode_record_section(
        section, header.records_count, header.base_offset, header.base_timestamp_ms, append_time_ms
    )


def decompress_records(
    batch: bytes | memoryview, header: BatchHeader, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> bytes | bytearray:
    """Decompress the records section of a complete batch. Raises CorruptBatch, DecompressedTooLarge."""
    end = header.batch_length + LOG_OVERHEAD
    if len(batch) < end:
        raise CorruptBatch(f"a batch of {end} bytes ends after {len(batch)} bytes")
    section = bytes(batch[HEADER_BYTES:end])
    codec = header.attributes & CODEC_MASK
    return decompress_to_buffer(codec, section, limit_bytes) if codec != NONE and section else section


def assign_offsets(
    batch: bytes,
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """Return the batch as the log stores it, with its offset, epoch and timestamps.

    `log_append_time_ms` makes it LogAppendTime. Otherwise `max_timestamp_ms`, if given, makes it CreateTime
    with that maximum, as a broker corrects the declaration of a producer. The CRC is computed again only
    after a change. Source: Kafka's `LogValidator`.
    """
    if log_append_time_ms is None and max_timestamp_ms is None:
        return _OFFSET_AND_EPOCH.pack(base_offset, len(batch) - LOG_OVERHEAD, leader_epoch) + batch[16:]
    header = read_header(batch)
    if log_append_time_ms is not None:
        attributes, latest_ms = header.attributes | LOG_APPEND_TIME, log_append_time_ms
    else:
        assert max_timestamp_ms is not None
        attributes, latest_ms = header.attributes & ~LOG_APPEND_TIME, max_timestamp_ms
    placed = _OFFSET_AND_EPOCH.pack(base_offset, header.batch_length, leader_epoch)
    if attributes == header.attributes and latest_ms == header.max_timestamp_ms:
        return placed + batch[16:]
    signed = bytearray(batch[CRC_START:])
    struct.pack_into(">h", signed, 0, attributes)
    struct.pack_into(">q", signed, 35 - CRC_START, latest_ms)
    return placed + struct.pack(">bI", MAGIC, crc32c(signed)) + bytes(signed)


BYTES_UP_TO_MAGIC: Final = 17
"""The size of the fields from the base offset to the magic, in bytes. All formats have them at the same place."""
MIN_LEGACY_LENGTH: Final = 14
"""The value of the length field of a message of magic 0 without key and value."""

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22
_COUNT_AT: Final = 57


def peek_size(records: bytes, position: int = 0) -> int | None:
    """Return the size in bytes of the batch, or the message of an older format, at `position`. Return None if
    it is incomplete. Raises CorruptBatch for an impossible length."""
    available = len(records) - position
    if available < BYTES_UP_TO_MAGIC:
        return None
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_AT)
    if length < MIN_LEGACY_LENGTH:
        raise CorruptBatch(f"a batch cannot be of length {length}", position)
    size: int = length + LOG_OVERHEAD
    return size if size <= available else None


def peek_magic(batch: bytes) -> int:
    """Return the format version of these bytes, at least `BYTES_UP_TO_MAGIC` of them. Batches have version 2."""
    return batch[_MAGIC_AT]


def peek_codec(batch: bytes) -> int:
    """Return the codec of a batch with a complete header, as in `compression`."""
    return batch[_ATTRIBUTES_LOW_AT] & CODEC_MASK


def peek_count(batch: bytes) -> int:
    """Return the record count in the header of a batch. The count may be wrong."""
    (count,) = _LENGTH.unpack_from(batch, _COUNT_AT)
    return int(count)


def peek_is_transactional(records: bytes) -> bool:
    """Return whether these bytes begin with the header of a transactional batch."""
    if len(records) < HEADER_BYTES or records[_MAGIC_AT] != MAGIC:
        return False
    return bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL)
