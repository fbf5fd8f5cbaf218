"""Validate the batch of a producer: its format, and its records against the configs of its topic.

These functions use no log, so they can run in another thread: a batch may decompress to a large size. They count
the total cost of a request as they spend it (`storage/record_scan.py`).

Source: Kafka's `ProduceRequest.validateRecords`, `LogValidator`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.config.topic_configs import TopicValues
from coordinator.topics.api_error import ApiError
from protocol.error_codes import ErrorCode
from protocol.messages.produce import BatchIndexAndErrorMessage
from storage.batch import HEADER_BYTES, MAGIC, NO_TIMESTAMP, peek_codec, peek_count, peek_magic, peek_size
from storage.compression import ZSTD
from storage.log_validator import ValidBatch, iterate_timestamps_and_keys, validate_batch
from storage.record_scan import MAX_UNPACKED_BYTES, DecompressionBudget, OverBudget
from storage.storage_errors import CorruptBatch, DecompressedTooLarge, InvalidRecord, UnsupportedMagic

ZSTD_VERSION: Final = 7
MAX_RECORD_ERRORS: Final = 1000
MAX_RECORDS: Final = 1_000_000
"""The maximum number of records in a batch. A compressed batch of valid size could otherwise decompress to
gigabytes of records."""
NO_OFFSET: Final = -1
WITHOUT_KEY: Final = "a compacted topic accepts no record without a key"
CLAIMED_APPEND_TIME: Final = "a producer cannot set the timestamp type LogAppendTime"


class ProduceError(ApiError):
    """The error of a batch that is not written, the invalid records, and whether the response includes the log
    start offset. Kafka includes it once it has opened the log.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        records: Sequence[BatchIndexAndErrorMessage] = (),
        *,
        tells_log_start: bool = False,
        log_start_offset: int = NO_OFFSET,
    ) -> None:
        super().__init__(code, message)
        self.records = list(records)
        self.tells_log_start = tells_log_start
        self.log_start_offset = log_start_offset


class ReceivedBatch(NamedTuple):
    """A received batch with the configs of its topic."""

    batch: bytes
    values: TopicValues


ExaminedBatch = tuple[ReceivedBatch, ValidBatch] | ProduceError


def extract_batch(records: bytes | None, version: int) -> bytes:
    """Return the only batch of a partition's records. As in Kafka an incomplete batch after it is ignored."""
    size = _find_batch_size(records or b"", 0)
    if records is None or size is None:
        raise ProduceError(
            ErrorCode.INVALID_RECORD, "a partition must come with exactly one record batch, not none"
        )
    magic = peek_magic(records)
    if magic > MAGIC:
        raise ProduceError(ErrorCode.CORRUPT_MESSAGE, f"unknown record format {magic}")
    if magic != MAGIC:
        raise ProduceError(ErrorCode.INVALID_RECORD, f"records must be in format 2, not {magic}")
    if size < HEADER_BYTES:
        raise ProduceError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a batch header")
    if version < ZSTD_VERSION and peek_codec(records) == ZSTD:
        raise ProduceError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if size == len(records):
        return records
    if _find_batch_size(records, size) is not None:
        raise ProduceError(ErrorCode.INVALID_RECORD, "a partition must come with exactly one record batch")
    return records[:size]


def _find_batch_size(records: bytes, position: int) -> int | None:
    """Return the size of the batch at `position`; None if it is incomplete.

    Raises:
        ProduceError: the size is invalid.
    """
    try:
        return peek_size(records, position)
    except CorruptBatch as error:
        raise ProduceError(ErrorCode.CORRUPT_MESSAGE, error.reason) from error


def examine_batches(
    sent: Sequence[ReceivedBatch | ProduceError],
    now_ms: int,
    budget: DecompressionBudget,
    *,
    may_refuse: bool,
) -> list[ExaminedBatch]:
    """Validate each batch without its log. Earlier errors remain. Safe to call in any thread.

    Raises:
        OverBudget: the budget is exceeded and `may_refuse` is false.
    """
    return [
        each if isinstance(each, ProduceError) else _examine(each, now_ms, budget, may_refuse=may_refuse)
        for each in sent
    ]


def _examine(
    sent: ReceivedBatch, now_ms: int, budget: DecompressionBudget, *, may_refuse: bool
) -> ExaminedBatch:
    batch, values = sent
    try:
        valid = _validate_received_batch(batch, values, budget)
        _check_records(batch, valid, values, now_ms, budget)
    except OverBudget as error:
        if not may_refuse:
            raise
        return ProduceError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error), tells_log_start=True)
    except ProduceError as error:
        # The traceback would keep the decompressed records in memory.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    return sent, valid


def _validate_received_batch(batch: bytes, values: TopicValues, budget: DecompressionBudget) -> ValidBatch:
    if len(batch) > values.max_message_bytes:
        raise ProduceError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(batch)} bytes exceeds max.message.bytes={values.max_message_bytes}",
        )
    count = peek_count(batch)
    if count > MAX_RECORDS:
        raise ProduceError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {count} records exceeds {MAX_RECORDS}",
            tells_log_start=True,
        )
    try:
        return validate_batch(batch, _limit_bytes(values), budget)
    except InvalidRecord as error:
        records = (
            [] if error.record_index is None else [_build_record_error(error.record_index, error.reason)]
        )
        raise ProduceError(ErrorCode.INVALID_RECORD, str(error), records, tells_log_start=True) from error
    except (DecompressedTooLarge, UnsupportedMagic) as error:
        raise ProduceError(ErrorCode.INVALID_RECORD, str(error), tells_log_start=True) from error
    except CorruptBatch as error:
        raise ProduceError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _check_records(
    batch: bytes, valid: ValidBatch, values: TopicValues, now_ms: int, budget: DecompressionBudget
) -> None:
    """Check the key and the timestamp of each record.

    A compacted topic requires keys. A CreateTime topic accepts timestamps near the current time, and -1 for none. A
    producer must not send LogAppendTime, but as in Kafka a CreateTime topic accepts the timestamps of such records.
    """
    earliest = now_ms - values.message_timestamp_before_max_ms
    latest = now_ms + values.message_timestamp_after_max_ms
    claims_append_time = valid.header.is_log_append_time
    needs_keys = values.log.compacts
    is_timely = (
        values.is_log_append_time or earliest <= valid.min_timestamp_ms <= valid.max_timestamp_ms <= latest
    )
    if is_timely and not claims_append_time and not (needs_keys and valid.first_null_key is not None):
        return

    def find_time_error(time_ms: int) -> str | None:
        if not values.is_log_append_time and time_ms != NO_TIMESTAMP:
            is_near = earliest <= time_ms <= latest
            return None if is_near else f"Timestamp {time_ms} is not within {earliest} and {latest}"
        return CLAIMED_APPEND_TIME if claims_append_time else None

    code = ErrorCode.INVALID_RECORD
    record_errors: list[BatchIndexAndErrorMessage] = []
    records = iterate_timestamps_and_keys(batch, valid.header, _limit_bytes(values), budget)
    for index, (time_ms, has_key) in enumerate(records):
        message: str | None = None
        if needs_keys and not has_key:
            message = WITHOUT_KEY
        else:
            message = find_time_error(time_ms)
            code = code if message is None else ErrorCode.INVALID_TIMESTAMP
        if message is not None and len(record_errors) < MAX_RECORD_ERRORS:
            record_errors.append(_build_record_error(index, message))
    if record_errors:
        message = WITHOUT_KEY
        if code == ErrorCode.INVALID_TIMESTAMP:
            message = "One or more records have been rejected due to invalid timestamp"
        raise ProduceError(code, message, record_errors, tells_log_start=True)


def _limit_bytes(values: TopicValues) -> int:
    return min(values.max_decompressed_message_bytes, MAX_UNPACKED_BYTES)


def _build_record_error(index: int, message: str) -> BatchIndexAndErrorMessage:
    return BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
