"""Checks of the bytes of a Produce request for one partition, before an append.

Source: Kafka's `ProduceRequest.validateRecords` (one batch, magic 2), `UnifiedLog.analyzeAndValidateRecords`
(base offset 0, checksum) and `LogValidator` (counts, sequences, control bit, contents).
"""

from collections.abc import Iterator
from typing import NamedTuple

from storage.batch import NO_PRODUCER, NO_TIMESTAMP, BatchHeader, check_crc, decompress_records, read_header
from storage.compression import CODEC_NAMES, NONE
from storage.record_scan import (
    MAX_UNPACKED_BYTES,
    DecompressionBudget,
    OverBudget,
    ScannedRecord,
    scan_records,
)
from storage.storage_errors import CorruptBatch, DecompressedTooLarge, InvalidRecord, UnsupportedMagic


class ValidBatch(NamedTuple):
    """The facts about a batch that the data plane needs, from one pass over its content.

    All times are the producer's. If the batch declares LogAppendTime, the time of each record is that of its
    header.
    """

    header: BatchHeader
    min_timestamp_ms: int
    max_timestamp_ms: int
    """The greatest timestamp of the records. The header may have another value, which `assign_offsets` then
    corrects."""
    first_null_key: int | None
    """The index of the first record without a key, or None if all have one. A compacted topic rejects such a
    record."""


def validate_batch(
    data: bytes, limit_bytes: int = MAX_UNPACKED_BYTES, budget: DecompressionBudget | None = None
) -> ValidBatch:
    """Check that `data`, the records field of one partition of a Produce request, is exactly one valid batch.

    `limit_bytes` bounds the decompressed size. `budget` bounds the cost of all batches of a request. The
    caller checks the maximum batch size (max.message.bytes).

    Raises:
        UnsupportedMagic, InvalidRecord, DecompressedTooLarge: the data plane responds with INVALID_RECORD.
        CorruptBatch: any other problem; the data plane responds with CORRUPT_MESSAGE.
        OverBudget: the request exceeds its budget.
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
    if budget is None:
        budget = DecompressionBudget.for_request(len(data))
    try:
        return _check_records(data, header, limit_bytes, budget)
    except (UnsupportedMagic, DecompressedTooLarge, InvalidRecord):
        raise
    except CorruptBatch as error:
        # The checksum is valid, so the producer itself sent these bytes.
        raise InvalidRecord(error.reason) from error


def iterate_timestamps_and_keys(
    data: bytes, header: BatchHeader, limit_bytes: int, budget: DecompressionBudget
) -> Iterator[tuple[int, bool]]:
    """Yield for each record of a valid batch its time, as in `ValidBatch`, and whether it has a key. Raises
    OverBudget."""
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    base_ms = header.base_timestamp_ms
    for _, timestamp_delta, has_key in _scan_batch(data, header, limit_bytes, budget):
        yield base_ms + timestamp_delta if append_time_ms is None else append_time_ms, has_key


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


def _check_records(
    data: bytes, header: BatchHeader, limit_bytes: int, budget: DecompressionBudget
) -> ValidBatch:
    first_null_key = None
    earliest = latest = None
    for index, (offset_delta, timestamp_delta, has_key) in enumerate(
        _scan_batch(data, header, limit_bytes, budget)
    ):
        if offset_delta != index:
            raise InvalidRecord(f"offset delta {offset_delta} where {index} is due", index)
        if earliest is None or latest is None:
            earliest = latest = timestamp_delta
        elif timestamp_delta < earliest:
            earliest = timestamp_delta
        elif timestamp_delta > latest:
            latest = timestamp_delta
        if not has_key and first_null_key is None:
            first_null_key = index
    assert earliest is not None, "a batch without records was refused before"
    assert latest is not None
    if header.is_log_append_time:
        earliest_ms = latest_ms = header.max_timestamp_ms
    else:
        earliest_ms, latest_ms = header.base_timestamp_ms + earliest, header.base_timestamp_ms + latest
    return ValidBatch(header, earliest_ms, max(NO_TIMESTAMP, latest_ms), first_null_key)


def _scan_batch(
    data: bytes, header: BatchHeader, limit_bytes: int, budget: DecompressionBudget
) -> Iterator[ScannedRecord]:
    if header.codec == NONE:
        section = decompress_records(data, header, limit_bytes)
    else:
        most_bytes = min(limit_bytes, budget.bytes_left)
        try:
            section = decompress_records(data, header, most_bytes)
        except DecompressedTooLarge as error:
            if most_bytes < limit_bytes:
                raise OverBudget(error.reason) from error
            raise
        budget.spend_bytes(len(section))
    return scan_records(section, header.records_count, budget)
