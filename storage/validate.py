"""What a broker checks of the bytes that a producer sent for one partition, before they may enter a log.

Source: Kafka's `ProduceRequest.validateRecords` (one batch, magic 2), `UnifiedLog.analyzeAndValidateRecords`
(base offset 0, checksum) and `LogValidator` (counts, sequences, control bit, contents).
"""

from typing import NamedTuple

from storage.batch import NO_PRODUCER, NO_TIMESTAMP, BatchHeader, check_crc, decode_records, read_header
from storage.compression import CODEC_NAMES, DEFAULT_LIMIT_BYTES
from storage.errors import CorruptBatch, DecompressedTooLarge, InvalidRecord, UnsupportedMagic


class ValidBatch(NamedTuple):
    """What the data plane decides with, after one look at the contents.

    All times are the producer's; where the batch claims LogAppendTime, that of each record is its header's.
    """

    header: BatchHeader
    min_timestamp_ms: int
    max_timestamp_ms: int
    """What the records say; the header may claim otherwise and is then corrected by `assign_offsets`."""
    first_null_key: int | None
    """Index of the first record without a key (a compacted topic refuses it), None when all have one."""


def validate_batch(data: bytes, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> ValidBatch:
    """Checks `data`, the records field of one partition of a Produce request, as exactly one acceptable
    batch.

    `limit_bytes` bounds what compressed records may unpack to. Raises, and the data plane answers:
    UnsupportedMagic, InvalidRecord and DecompressedTooLarge: INVALID_RECORD; any other CorruptBatch:
    CORRUPT_MESSAGE. How large a batch may be (max.message.bytes) is the caller's check.
    """
    if not data:
        raise InvalidRecord("a partition of a produce request must hold exactly one record batch, not none")
    header = read_header(data)
    if header.size_bytes > len(data):
        raise CorruptBatch(f"a batch of {header.size_bytes} bytes ends after {len(data)} bytes")
    if header.size_bytes < len(data):
        raise InvalidRecord("a partition of a produce request must hold exactly one record batch")
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    check_crc(data, 0, header)
    _check_header(header)
    return _check_records(data, header, limit_bytes)


def _check_header(header: BatchHeader) -> None:
    if header.records_count == 0:
        raise InvalidRecord("a produced batch must hold a record")
    if header.last_offset_delta + 1 != header.records_count:
        raise InvalidRecord(
            f"the batch counts {header.records_count} records over {header.last_offset_delta + 1} offsets"
        )
    if header.is_control:
        raise InvalidRecord("clients may not write control records")
    if header.producer_id > NO_PRODUCER and header.base_sequence < 0:
        raise InvalidRecord(f"sequence number {header.base_sequence} with producer id {header.producer_id}")
    if header.codec not in CODEC_NAMES:
        raise InvalidRecord(f"unknown compression codec {header.codec}")


def _check_records(data: bytes, header: BatchHeader, limit_bytes: int) -> ValidBatch:
    try:
        records = decode_records(data, header, limit_bytes)
    except (UnsupportedMagic, DecompressedTooLarge):
        raise
    except CorruptBatch as error:
        # The checksum held: the producer itself wrote this.
        raise InvalidRecord(error.reason) from error
    first_null_key = None
    for index, record in enumerate(records):
        if record.offset != index:
            raise InvalidRecord(f"offset delta {record.offset} where {index} is due", index)
        if record.key is None and first_null_key is None:
            first_null_key = index
    timestamps = [record.timestamp_ms for record in records]
    return ValidBatch(header, min(timestamps), max(NO_TIMESTAMP, *timestamps), first_null_key)
