"""A batch that a producer sent: whether it is one, and whether its topic takes what is in it.

Nothing here looks at a log, so that it can be done in another thread: a batch may unpack to very much. What a
request may cost altogether is counted as it is spent (`storage/unpack_budget.py`).

Source: Kafka's `ProduceRequest.validateRecords`, `LogValidator`.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from coordinator.config.topic_configs import TopicValues
from protocol.errors import ErrorCode
from protocol.messages.produce import BatchIndexAndErrorMessage
from storage.batch import HEADER_BYTES, MAGIC
from storage.batch_peek import peek_codec, peek_count, peek_magic, peek_size
from storage.compression import ZSTD
from storage.errors import CorruptBatch, DecompressedTooLarge, InvalidRecord, UnsupportedMagic
from storage.unpack_budget import MAX_UNPACKED_BYTES, OverBudget, UnpackBudget
from storage.validate import ValidBatch, timestamps_and_keys, validate_batch

ZSTD_SINCE: Final = 7
MAX_RECORD_ERRORS: Final = 1000
MAX_RECORDS: Final = 1_000_000
"""Of one batch. Compressed, a batch of the size that is allowed could else unpack to many gigabytes of records."""
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1


class ProduceRefused(Exception):
    """Why a batch is not written; which records are to blame, and whether the answer tells where the log begins, as
    Kafka's does once it has looked at the log."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        records: Sequence[BatchIndexAndErrorMessage] = (),
        *,
        tells_log_start: bool = False,
        log_start_offset: int = NO_OFFSET,
    ) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
        self.records = list(records)
        self.tells_log_start = tells_log_start
        self.log_start_offset = log_start_offset


class Sent(NamedTuple):
    """A batch that came for a topic of these properties."""

    batch: bytes
    values: TopicValues


Examined = tuple[Sent, ValidBatch] | ProduceRefused


def one_batch(records: bytes | None, version: int) -> bytes:
    """The batch that a partition's records must be; a torn end after it is ignored, as Kafka does."""
    size = _size_at(records or b"", 0)
    if records is None or size is None:
        raise ProduceRefused(
            ErrorCode.INVALID_RECORD, "a partition must come with exactly one record batch, not none"
        )
    magic = peek_magic(records)
    if magic > MAGIC:
        raise ProduceRefused(ErrorCode.CORRUPT_MESSAGE, f"there is no record format {magic}")
    if magic != MAGIC:
        raise ProduceRefused(ErrorCode.INVALID_RECORD, f"records must be in format 2, not {magic}")
    if size < HEADER_BYTES:
        raise ProduceRefused(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a batch header")
    if version < ZSTD_SINCE and peek_codec(records) == ZSTD:
        raise ProduceRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if size == len(records):
        return records
    if _size_at(records, size) is not None:
        raise ProduceRefused(ErrorCode.INVALID_RECORD, "a partition must come with exactly one record batch")
    return records[:size]


def _size_at(records: bytes, position: int) -> int | None:
    """The size of the batch that begins there, None where no whole one does. Raises ProduceRefused."""
    try:
        return peek_size(records, position)
    except CorruptBatch as error:
        raise ProduceRefused(ErrorCode.CORRUPT_MESSAGE, error.reason) from error


def examine_all(
    sent: Sequence[Sent | ProduceRefused], now_ms: int, budget: UnpackBudget, *, may_refuse: bool
) -> list[Examined]:
    """What is to be said of each batch without a look at its log; what was refused before remains so.

    Raises OverBudget, unless what is over budget is to be refused. May run in any thread.
    """
    return [
        each if isinstance(each, ProduceRefused) else _examine(each, now_ms, budget, may_refuse=may_refuse)
        for each in sent
    ]


def _examine(sent: Sent, now_ms: int, budget: UnpackBudget, *, may_refuse: bool) -> Examined:
    batch, values = sent
    try:
        valid = _validate(batch, values, budget)
        if valid.first_null_key is not None and values.log.compacts:
            raise _without_keys(batch, valid, values, budget)
        _check_times(batch, valid, values, now_ms, budget)
    except OverBudget as error:
        if not may_refuse:
            raise
        return ProduceRefused(ErrorCode.RECORD_LIST_TOO_LARGE, str(error), tells_log_start=True)
    except ProduceRefused as error:
        # Its traceback would keep what was unpacked.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    return sent, valid


def _validate(batch: bytes, values: TopicValues, budget: UnpackBudget) -> ValidBatch:
    if len(batch) > values.max_message_bytes:
        raise ProduceRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(batch)} bytes exceeds max.message.bytes={values.max_message_bytes}",
        )
    count = peek_count(batch)
    if count > MAX_RECORDS:
        raise ProduceRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {count} records exceeds {MAX_RECORDS}",
            tells_log_start=True,
        )
    try:
        return validate_batch(batch, _limit_bytes(values), budget)
    except InvalidRecord as error:
        records = [] if error.record_index is None else [_blamed(error.record_index, error.reason)]
        raise ProduceRefused(ErrorCode.INVALID_RECORD, str(error), records, tells_log_start=True) from error
    except (DecompressedTooLarge, UnsupportedMagic) as error:
        raise ProduceRefused(ErrorCode.INVALID_RECORD, str(error), tells_log_start=True) from error
    except CorruptBatch as error:
        raise ProduceRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _check_times(
    batch: bytes, valid: ValidBatch, values: TopicValues, now_ms: int, budget: UnpackBudget
) -> None:
    """Whether the producer's own times are near enough to now; -1 stands for no time and passes."""
    if values.is_log_append_time:
        return
    earliest, latest = (
        now_ms - values.message_timestamp_before_max_ms,
        now_ms + values.message_timestamp_after_max_ms,
    )
    if valid.max_timestamp_ms <= latest and valid.min_timestamp_ms >= earliest:
        return
    blamed = (
        _blamed(index, f"Timestamp {time_ms} is not within {earliest} and {latest}")
        for index, (time_ms, _) in enumerate(_scanned(batch, valid, values, budget))
        if time_ms != NO_TIMESTAMP and not earliest <= time_ms <= latest
    )
    records = list(islice(blamed, MAX_RECORD_ERRORS))
    if records:
        message = "One or more records have been rejected due to invalid timestamp"
        raise ProduceRefused(ErrorCode.INVALID_TIMESTAMP, message, records, tells_log_start=True)


def _without_keys(
    batch: bytes, valid: ValidBatch, values: TopicValues, budget: UnpackBudget
) -> ProduceRefused:
    message = "a compacted topic accepts no record without a key"
    blamed = (
        _blamed(index, message)
        for index, (_, has_key) in enumerate(_scanned(batch, valid, values, budget))
        if not has_key
    )
    records = list(islice(blamed, MAX_RECORD_ERRORS))
    return ProduceRefused(ErrorCode.INVALID_RECORD, message, records, tells_log_start=True)


def _scanned(
    batch: bytes, valid: ValidBatch, values: TopicValues, budget: UnpackBudget
) -> Iterator[tuple[int, bool]]:
    return timestamps_and_keys(batch, valid.header, _limit_bytes(values), budget)


def _limit_bytes(values: TopicValues) -> int:
    return min(values.max_decompressed_message_bytes, MAX_UNPACKED_BYTES)


def _blamed(index: int, message: str) -> BatchIndexAndErrorMessage:
    return BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
