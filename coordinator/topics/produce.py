"""Produce: append producers' record batches unchanged after validation.

The order of the checks decides which error a producer gets: first the request (topics, one batch per partition,
acks), then the batch (size, checksum, contents, timestamps), then its sequence number. Partitions fail
independently.

Source: Kafka's `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`, `ReplicaManager.appendRecords`,
`UnifiedLog.append`, `LogValidator`; KIP-98, KIP-467. Transactional batches may first need a request to the
transaction coordinator (`produce_verification.py`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from coordinator.core.outcome import Context, Now
from coordinator.core.response_status import CLOSE_CONNECTION, NO_RESPONSE
from coordinator.core.time_budget import run_in_one_step
from coordinator.topics.batch_validation import (
    NO_OFFSET,
    ExaminedBatch,
    ProduceError,
    ReceivedBatch,
    examine_batches,
    extract_batch,
)
from coordinator.topics.data_plane import Completions, DataPlane, LongAnswer
from coordinator.topics.data_plane_answer import Answer, PartitionFailed, SegmentRolled, TopicChange
from coordinator.topics.long_work import IN_ONE_STEP, LongWork, OneStepWork
from coordinator.topics.partition import HostedPartition
from coordinator.topics.partition_leadership import (
    PRODUCE_LEADER_VERSION,
    find_current_leader,
    find_endpoints,
)
from coordinator.topics.produce_verification import (
    NO_VERIFICATION,
    PARTITIONS_PER_STEP,
    TOPIC_IDS_VERSION,
    VerifiedBatches,
    check_producer,
    find_topic,
    has_transactional_batch,
    verify_transaction,
)
from coordinator.topics.topic import Topic
from protocol.current_leader import LeaderIdAndEpoch
from protocol.error_codes import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from storage.batch import NO_TIMESTAMP
from storage.log import PartitionLog
from storage.record_scan import DecompressionBudget, OverBudget
from storage.storage_errors import StorageError, format_error_reason

VALID_ACKS: Final = (-1, 0, 1)
MAX_PARTITIONS_AT_ONCE: Final = 500
"""The most partitions that are validated in one step and answered without a checkpoint."""
COUNTED_TOPICS: Final = MAX_PARTITIONS_AT_ONCE + 1
"""Topics of a request that are counted to find out whether it is large: a further one makes no difference."""
BYTES_PER_STEP: Final = 64 * 1024
"""The total size of small batches that are validated in one step."""


class AppendedBatch(NamedTuple):
    """The offset of an appended batch and its append time (-1: it keeps the producer's timestamps)."""

    partition: HostedPartition
    log: PartitionLog
    base_offset: int
    end_offset: int
    log_append_time_ms: int
    is_duplicate: bool


def answer_produce(
    plane: DataPlane, request: ProduceRequest, context: Context, now: Now
) -> Answer | LongAnswer:
    """Append or reject the batch of each partition independently.

    With acks 0 the broker sends no response, and an error closes the connection. Batches that are slow to validate
    are validated in another thread first.
    """
    # Other requests run between the partitions of a large request.
    is_large = (
        sum([1 + len(topic.partition_data) for topic in request.topic_data[:COUNTED_TOPICS]])
        > MAX_PARTITIONS_AT_ONCE
    )
    if is_large or run_in_one_step(has_transactional_batch(IN_ONE_STEP, request)):
        return partial(_produce, plane, request, context, is_large=is_large)
    sent = run_in_one_step(_collect_batches(plane, IN_ONE_STEP, request, context))
    return _examine_at_once(plane, request, context, now, sent, NO_VERIFICATION)


async def _produce(
    plane: DataPlane, request: ProduceRequest, context: Context, work: LongWork, *, is_large: bool
) -> Answer:
    """Answer a Produce with many partitions or with transactional batches."""
    work.begin_changes()
    verified = NO_VERIFICATION
    if await has_transactional_batch(work, request):
        sent, verified = await _collect_transactional_batches(plane, work, request, context)
    else:
        sent = await _collect_batches(plane, work, request, context)
    await work.checkpoint()
    if is_large:
        return await _examine_in_thread(plane, request, context, sent, verified, work)
    answer = _examine_at_once(plane, request, context, work.now(), sent, verified)
    return answer if isinstance(answer, Answer) else await answer(work)


async def _collect_transactional_batches(
    plane: DataPlane, work: LongWork, request: ProduceRequest, context: Context
) -> tuple[list[ReceivedBatch | ProduceError], VerifiedBatches]:
    """Return the batch of each partition and the verification of the transactional ones. Reject a request without a
    transactional id.
    """
    if request.transactional_id is None:
        refused: list[ReceivedBatch | ProduceError] = []
        error = ProduceError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        for topic in request.topic_data:
            refused += [error] * len(topic.partition_data)
            await work.checkpoint()
        return refused, NO_VERIFICATION
    sent = await _collect_batches(plane, work, request, context)
    verified = await verify_transaction(plane, work, request, context, sent)
    return sent, verified


def _examine_at_once(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    sent: list[ReceivedBatch | ProduceError],
    verified: VerifiedBatches,
) -> Answer | LongAnswer:
    """Validate and append batches before another request runs, unless validation takes long."""
    try:
        examined = examine_batches(sent, now.wall_ms, DecompressionBudget.for_event_loop(), may_refuse=False)
    except OverBudget:
        return partial(_examine_in_thread, plane, request, context, sent, verified)
    batches = zip(sent, examined, strict=True)
    return run_in_one_step(_append_all(plane, OneStepWork(now), request, context, batches, verified))


async def _examine_in_thread(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    sent: list[ReceivedBatch | ProduceError],
    verified: VerifiedBatches,
    work: LongWork,
) -> Answer:
    """Validate batches in another thread, one large batch at a time, so that other requests' batches run in
    between. Then append them.
    """
    budget = DecompressionBudget.for_request(
        sum(len(each.batch) for each in sent if isinstance(each, ReceivedBatch))
    )
    work.begin_changes()
    arrived_ms = work.now().wall_ms
    examined: list[ExaminedBatch] = []
    for piece in _split_batches(sent):
        examined += await work.call_in_thread(
            partial(examine_batches, piece, arrived_ms, budget, may_refuse=True)
        )
    await work.checkpoint()
    return await _append_all(plane, work, request, context, zip(sent, examined, strict=True), verified)


def _split_batches(sent: list[ReceivedBatch | ProduceError]) -> Iterator[list[ReceivedBatch | ProduceError]]:
    """Split the batches into groups that can be validated without delaying other requests."""
    piece: list[ReceivedBatch | ProduceError] = []
    size_bytes = 0
    for each in sent:
        each_bytes = len(each.batch) if isinstance(each, ReceivedBatch) else 0
        if piece and (size_bytes + each_bytes > BYTES_PER_STEP or len(piece) >= MAX_PARTITIONS_AT_ONCE):
            yield piece
            piece, size_bytes = [], 0
        piece.append(each)
        size_bytes += each_bytes
    if piece:
        yield piece


async def _collect_batches(
    plane: DataPlane, work: LongWork, request: ProduceRequest, context: Context
) -> list[ReceivedBatch | ProduceError]:
    """Return the records of each partition in request order, or the error that rejects it before validation."""
    sent: list[ReceivedBatch | ProduceError] = []
    for topic_data in request.topic_data:
        for data in topic_data.partition_data:
            if not (len(sent) + 1) % PARTITIONS_PER_STEP:
                await work.checkpoint()
            topic = find_topic(plane, topic_data, context.api_version)
            try:
                topic = _check_partition_exists(topic, data.index, context)
                batch = extract_batch(data.records, context.api_version)
                if request.acks not in VALID_ACKS:
                    raise ProduceError(ErrorCode.INVALID_REQUIRED_ACKS)
                if topic.is_internal:
                    raise ProduceError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                if not plane.is_leader(topic.hosted[data.index].name, context):
                    raise ProduceError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            except ProduceError as error:
                sent.append(error.with_traceback(None))
            else:
                sent.append(ReceivedBatch(batch, topic.values))
    return sent


def _check_partition_exists(topic: Topic | None, index: int, context: Context) -> Topic:
    """Return the topic of an existing partition.

    Raises:
        ProduceError: the topic or partition does not exist.
    """
    if topic is None:
        by_id = context.api_version >= TOPIC_IDS_VERSION
        raise ProduceError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not 0 <= index < len(topic.partitions):
        raise ProduceError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


async def _append_all(
    plane: DataPlane,
    work: LongWork,
    request: ProduceRequest,
    context: Context,
    batches: Iterator[tuple[ReceivedBatch | ProduceError, ExaminedBatch]],
    verified: VerifiedBatches,
) -> Answer:
    """Append each valid batch to its log, unless its topic has changed since the validation."""
    responses: list[TopicProduceResponse] = []
    changes: list[TopicChange] = []
    appended: list[HostedPartition] = []
    durable: list[tuple[PartitionLog, int]] = []
    has_error, count, now = False, 0, work.now()
    for topic_data in request.topic_data:
        topic_response = TopicProduceResponse(
            name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=[]
        )
        responses.append(topic_response)
        count += 1
        if count % PARTITIONS_PER_STEP == 0:
            await work.checkpoint()
            now = work.now()
        for data in topic_data.partition_data:
            count += 1
            if count % PARTITIONS_PER_STEP == 0:
                await work.checkpoint()
                now = work.now()
            try:
                topic = find_topic(plane, topic_data, context.api_version)
                sent, examined = next(batches)
                if isinstance(sent, ProduceError):
                    raise sent
                topic = _check_partition_exists(topic, data.index, context)
                partition = topic.hosted[data.index]
                if topic.values is not sent.values or not plane.is_leader(partition.name, context):
                    # The configs have changed since the validation, or the leader has. The client retries.
                    raise ProduceError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                written = _append_batch(partition, examined, verified, now, changes)
            except ProduceError as error:
                has_error = True
                # The traceback would keep this frame, and with it all records, in memory.
                refused = _build_refused(data.index, error.with_traceback(None))
                _add_current_leader(plane, topic, refused, context)
                topic_response.partition_responses.append(refused)
                continue
            if not written.is_duplicate:
                appended.append(partition)
            if partition.is_flushed_always:
                durable.append((written.log, written.end_offset))
            topic_response.partition_responses.append(_build_accepted(data.index, written))
    response = ProduceResponse(responses=responses)
    answer = _build_answer(plane, request, context, response, durable, has_error=has_error)
    answer.changes = changes
    if appended and len(plane.fetch_purgatory):
        answer.completions = _complete_fetches(plane, appended, now)
    return answer


def _complete_fetches(plane: DataPlane, appended: list[HostedPartition], now: Now) -> Completions:
    """Complete the fetches that the new records satisfy. Where records must be synced first,
    `on_high_watermark_advanced` completes them.
    """
    names = [part.name for part in appended if not part.is_flushed_always]
    woken = [delayed for name in names for delayed in plane.fetch_purgatory.pop_satisfied(name)]
    return plane.complete_fetches(woken, now.monotonic_ms)


def _build_answer(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    response: ProduceResponse,
    durable: list[tuple[PartitionLog, int]],
    *,
    has_error: bool,
) -> Answer:
    """Return the answer. With acks 0 it has no response, or closes the connection after an error. `durable` lists
    the logs with the offsets that must be synced first.
    """
    if durable:
        # A topic that was deleted at a checkpoint needs no sync.
        durable = [(log, offset) for log, offset in durable if not log.is_deleted]
    if request.acks == 0:
        return Answer(CLOSE_CONNECTION if has_error else NO_RESPONSE, unawaited=[log for log, _ in durable])
    if has_error:
        response.node_endpoints = find_endpoints(
            _iterate_leaders(response.responses), plane.ownership, context.node
        )
    return Answer(response, durable=durable)


def _add_current_leader(
    plane: DataPlane, topic: Topic | None, refused: PartitionProduceResponse, context: Context
) -> None:
    """Add the partition's leader to an error response if another live broker leads it."""
    has_leader_field = context.api_version >= PRODUCE_LEADER_VERSION
    is_there = topic is not None and 0 <= refused.index < len(topic.partitions)
    if has_leader_field and refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and is_there:
        assert topic is not None
        refused.current_leader = find_current_leader(topic.partitions[refused.index], plane.ownership)


def _iterate_leaders(responses: list[TopicProduceResponse]) -> Iterator[LeaderIdAndEpoch]:
    for response in responses:
        for part in response.partition_responses:
            if part.current_leader is not None:
                yield part.current_leader


def _append_batch(
    partition: HostedPartition,
    examined: ExaminedBatch,
    verified: VerifiedBatches,
    now: Now,
    changes: list[TopicChange],
) -> AppendedBatch:
    """Append a batch, or detect a duplicate.

    Raises:
        ProduceError: the batch is rejected.
    """
    log = partition.usable_log(now.monotonic_ms)
    if log is None:
        raise ProduceError(ErrorCode.KAFKA_STORAGE_ERROR)
    start = log.log_start_offset
    if isinstance(examined, ProduceError):
        examined.log_start_offset = start if examined.tells_log_start else NO_OFFSET
        raise examined
    (batch, values), valid = examined
    if len(batch) > log.config.segment_bytes:
        raise ProduceError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {len(batch)} bytes does not fit a segment of {log.config.segment_bytes}",
            log_start_offset=start,
        )
    header = valid.header
    producers = partition.producers
    assert producers is not None, partition.name
    if header.producer_id >= 0:
        first = producers.state.find_duplicate(header)
        if first is not None:
            return AppendedBatch(
                partition, log, first.first_offset, first.last_offset + 1, first.timestamp_ms, True
            )
        check_producer(partition, header, verified)
    append_error = partition.find_append_error(len(batch))
    if append_error is not None:
        raise ProduceError(append_error, log_start_offset=start)
    try:
        if values.is_log_append_time:
            result = log.append(batch, log_append_time_ms=now.wall_ms)
        else:
            result = log.append(batch, max_timestamp_ms=valid.max_timestamp_ms)
    except (StorageError, OSError) as error:
        changes.append(PartitionFailed(*partition.name, format_error_reason(error)))
        raise ProduceError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    if result.is_rolled:
        changes.append(SegmentRolled(*partition.name, log))
    latest_ms = now.wall_ms if values.is_log_append_time else valid.max_timestamp_ms
    producers.on_batch_appended(header, result.base_offset, latest_ms)
    append_time_ms = now.wall_ms if values.is_log_append_time else NO_TIMESTAMP
    return AppendedBatch(partition, log, result.base_offset, result.last_offset + 1, append_time_ms, False)


def _build_refused(index: int, error: ProduceError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        log_start_offset=error.log_start_offset,
        record_errors=error.records,
        error_message=error.message,
    )


def _build_accepted(index: int, written: AppendedBatch) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=written.base_offset,
        log_append_time_ms=written.log_append_time_ms,
        log_start_offset=written.log.log_start_offset,
    )
