"""Produce: record batches from producers, stored as they came once they are found sound.

What is checked, and in which order, decides which error a producer sees: first what the request says about
itself (topics, one batch a partition, acks), then the batch (size, checksum, contents, times), then its
place among the batches of its producer. A partition that is refused does not keep the others from being
written.

Source: Kafka's `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`,
`ReplicaManager.appendRecords`, `UnifiedLog.append`, `LogValidator`; KIP-98, KIP-467. Transactions do not
exist here: batches of one are refused with the error that such a producer gets for its InitProducerId, and
takes as final.
"""

from typing import Final, NamedTuple

from coordinator.answers import GOODBYE, NO_ANSWER
from coordinator.config.topic_configs import TopicValues
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, PartitionFailed, SegmentRolled, TopicChange
from coordinator.topics.catalogue import Topic
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.partition import HostedPartition
from coordinator.topics.producer_state import InvalidProducerEpoch, OutOfOrderSequence
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from storage.batch import HEADER_BYTES, LOG_APPEND_TIME, MAGIC, BatchHeader, decode_records
from storage.batch_peek import peek_codec, peek_count, peek_is_transactional, peek_magic, peek_size
from storage.compression import DEFAULT_LIMIT_BYTES, ZSTD
from storage.errors import CorruptBatch, DecompressedTooLarge, InvalidRecord, StorageError, UnsupportedMagic
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.validate import ValidBatch, validate_batch

TOPIC_IDS_SINCE: Final = 13
ZSTD_SINCE: Final = 7
VALID_ACKS: Final = (-1, 0, 1)
MAX_RECORD_ERRORS: Final = 1000
MAX_RECORDS: Final = 1_000_000
"""Of one batch. Compressed, a batch of the size that is allowed could else unpack to many gigabytes of records."""
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1


class ProduceRefused(Exception):
    """Why a batch is not written; `log_start_offset` and records where Kafka tells them."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        log_start_offset: int = NO_OFFSET,
        records: list[BatchIndexAndErrorMessage] | None = None,
    ) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
        self.log_start_offset = log_start_offset
        self.records = records or []


class Written(NamedTuple):
    """Where a batch is, and the time it was given (-1: it has its producer's)."""

    partition: HostedPartition
    log: PartitionLog
    base_offset: int
    end_offset: int
    log_append_time_ms: int
    is_duplicate: bool


def answer_produce(plane: DataPlane, request: ProduceRequest, context: Context, now: Now) -> Answer:
    """Each partition's batch is written or refused on its own. With acks 0 there is no answer, or the connection is
    closed."""
    is_transactional = any(
        data.records is not None and peek_is_transactional(data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    )
    responses = []
    changes: list[TopicChange] = []
    appended: list[HostedPartition] = []
    durable: list[tuple[PartitionLog, int]] = []
    has_error = False
    for topic_data in request.topic_data:
        by_id = context.api_version >= TOPIC_IDS_SINCE
        topic = (
            plane.catalogue.get_by_id(topic_data.topic_id) if by_id else plane.catalogue.get(topic_data.name)
        )
        response = TopicProduceResponse(
            name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=[]
        )
        for data in topic_data.partition_data:
            try:
                if is_transactional:
                    raise ProduceRefused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                partition, batch = _admit(topic, data.index, data.records, request.acks, context.api_version)
                assert topic is not None
                written = _write(partition, topic.values, batch, now.wall_ms, now.monotonic_ms, changes)
            except ProduceRefused as error:
                has_error = True
                response.partition_responses.append(_refused(data.index, error))
                continue
            if not written.is_duplicate:
                appended.append(partition)
            if partition.is_flushed_always and request.acks != 0:
                durable.append((written.log, written.end_offset))
            response.partition_responses.append(_accepted(data.index, written))
        responses.append(response)
    if request.acks == 0:
        answer = Answer(GOODBYE if has_error else NO_ANSWER, changes=changes)
    else:
        answer = Answer(ProduceResponse(responses=responses), durable=durable, changes=changes)
    if appended and len(plane.parked):
        # Those whose records must reach the disk first are woken by `advanced`.
        names = [part.name for part in appended if not part.is_flushed_always]
        woken = [parked for name in names for parked in plane.parked.woken_by(name)]
        answer.completions = plane.complete(woken, now.monotonic_ms)
    return answer


def _admit(
    topic: Topic | None, index: int, records: bytes | None, acks: int, version: int
) -> tuple[HostedPartition, bytes]:
    """What can be said before the log is looked at: the partition and its one batch. Raises
    ProduceRefused.
    """
    if topic is None:
        by_id = version >= TOPIC_IDS_SINCE
        raise ProduceRefused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not 0 <= index < len(topic.partitions):
        raise ProduceRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    batch = _one_batch(records, version)
    if acks not in VALID_ACKS:
        raise ProduceRefused(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic.is_internal:
        raise ProduceRefused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return topic.hosted[index], batch


def _one_batch(records: bytes | None, version: int) -> bytes:
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


def _write(
    partition: HostedPartition,
    values: TopicValues,
    batch: bytes,
    now_ms: int,
    monotonic_ms: int,
    changes: list[TopicChange],
) -> Written:
    """Writes a batch, or finds that it has been written. Raises ProduceRefused."""
    log = partition.usable_log(monotonic_ms)
    if log is None:
        raise ProduceRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    start = log.log_start_offset
    valid = _validate(batch, values, start)
    if valid.first_null_key is not None and values.log.compacts:
        raise _without_keys(batch, valid, start)
    _check_times(batch, valid, values, now_ms, start)
    if len(batch) > log.config.segment_bytes:
        raise ProduceRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {len(batch)} bytes does not fit a segment of {log.config.segment_bytes}",
            start,
        )
    header = valid.header
    if header.producer_id >= 0:
        first = partition.producers.duplicate_of(header)
        if first is not None:
            return Written(
                partition, log, first.first_offset, first.last_offset + 1, first.timestamp_ms, True
            )
        try:
            partition.producers.check(header)
        except InvalidProducerEpoch as error:
            raise ProduceRefused(ErrorCode.INVALID_PRODUCER_EPOCH, str(error), start) from error
        except OutOfOrderSequence as error:
            raise ProduceRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, str(error), start) from error
    try:
        if values.is_log_append_time:
            result = log.append(batch, log_append_time_ms=now_ms)
        else:
            result = log.append(batch, max_timestamp_ms=valid.max_timestamp_ms)
    except (StorageError, OSError) as error:
        changes.append(PartitionFailed(*partition.name, reason_of(error)))
        raise ProduceRefused(ErrorCode.KAFKA_STORAGE_ERROR) from error
    if result.is_rolled:
        changes.append(SegmentRolled(*partition.name, log))
    latest_ms = now_ms if values.is_log_append_time else valid.max_timestamp_ms
    partition.producers.record(header, result.base_offset, latest_ms)
    append_time_ms = now_ms if values.is_log_append_time else NO_TIMESTAMP
    return Written(partition, log, result.base_offset, result.last_offset + 1, append_time_ms, False)


def _validate(batch: bytes, values: TopicValues, start: int) -> ValidBatch:
    if len(batch) > values.max_message_bytes:
        raise ProduceRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(batch)} bytes exceeds max.message.bytes={values.max_message_bytes}",
        )
    count = peek_count(batch)
    if count > MAX_RECORDS:
        raise ProduceRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {count} records exceeds {MAX_RECORDS}", start
        )
    try:
        return validate_batch(batch, min(values.max_decompressed_message_bytes, DEFAULT_LIMIT_BYTES))
    except InvalidRecord as error:
        records = []
        if error.record_index is not None:
            records = [
                BatchIndexAndErrorMessage(
                    batch_index=error.record_index, batch_index_error_message=error.reason
                )
            ]
        raise ProduceRefused(ErrorCode.INVALID_RECORD, str(error), start, records) from error
    except (DecompressedTooLarge, UnsupportedMagic) as error:
        raise ProduceRefused(ErrorCode.INVALID_RECORD, str(error), start) from error
    except CorruptBatch as error:
        raise ProduceRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _check_times(batch: bytes, valid: ValidBatch, values: TopicValues, now_ms: int, start: int) -> None:
    """Whether the producer's own times are near enough to now; -1 stands for no time and passes."""
    if values.is_log_append_time:
        return
    earliest, latest = (
        now_ms - values.message_timestamp_before_max_ms,
        now_ms + values.message_timestamp_after_max_ms,
    )
    if valid.max_timestamp_ms <= latest and valid.min_timestamp_ms >= earliest:
        return
    times = [record.timestamp_ms for record in decode_records(batch, _with_own_times(valid))]
    records = [
        BatchIndexAndErrorMessage(
            batch_index=index,
            batch_index_error_message=f"Timestamp {time_ms} is not within {earliest} and {latest}",
        )
        for index, time_ms in enumerate(times)
        if time_ms != NO_TIMESTAMP and not earliest <= time_ms <= latest
    ]
    if records:
        message = "One or more records have been rejected due to invalid timestamp"
        raise ProduceRefused(ErrorCode.INVALID_TIMESTAMP, message, start, records[:MAX_RECORD_ERRORS])


def _with_own_times(valid: ValidBatch) -> BatchHeader:
    return valid.header._replace(attributes=valid.header.attributes & ~LOG_APPEND_TIME)


def _without_keys(batch: bytes, valid: ValidBatch, start: int) -> ProduceRefused:
    message = "a compacted topic accepts no record without a key"
    records = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, record in enumerate(decode_records(batch, valid.header))
        if record.key is None
    ]
    return ProduceRefused(ErrorCode.INVALID_RECORD, message, start, records[:MAX_RECORD_ERRORS])


def _refused(index: int, error: ProduceRefused) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        log_start_offset=error.log_start_offset,
        record_errors=error.records,
        error_message=error.message,
    )


def _accepted(index: int, written: Written) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=written.base_offset,
        log_append_time_ms=written.log_append_time_ms,
        log_start_offset=written.log.log_start_offset,
    )
