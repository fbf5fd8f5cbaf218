"""Produce: record batches from producers, stored as they came once they are found sound.

What is checked, and in which order, decides which error a producer sees: first what the request says about
itself (topics, one batch a partition, acks), then the batch (size, checksum, contents, times), then its
place among the batches of its producer. A partition that is refused does not keep the others from being
written.

Source: Kafka's `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`,
`ReplicaManager.appendRecords`, `UnifiedLog.append`, `LogValidator`; KIP-98, KIP-467. Batches of a transaction may
have to wait for its coordinator first (`produce_verification.py`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from coordinator.core.outcome import Context, Now
from coordinator.core.response_status import CLOSE_CONNECTION, NO_RESPONSE
from coordinator.topics.batch_validation import (
    NO_OFFSET,
    ExaminedBatch,
    ProduceError,
    ReceivedBatch,
    examine_batches,
    extract_batch,
)
from coordinator.topics.data_plane import AnswerSteps, DataPlane
from coordinator.topics.data_plane_answer import Answer, PartitionFailed, SegmentRolled, TopicChange
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
from coordinator.topics.stepwise_work import StepGenerator, StepMark, run_internal_steps, run_steps
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
"""Partitions of a request that is answered without a step, and that are looked at in one go."""
BYTES_PER_STEP: Final = 64 * 1024
"""Of small batches so many are looked at in one go."""


class AppendedBatch(NamedTuple):
    """Where a batch is, and the time it was given (-1: it has its producer's)."""

    partition: HostedPartition
    log: PartitionLog
    base_offset: int
    end_offset: int
    log_append_time_ms: int
    is_duplicate: bool


def answer_produce(
    plane: DataPlane, request: ProduceRequest, context: Context, now: Now
) -> Answer | AnswerSteps:
    """Each partition's batch is written or refused on its own. With acks 0 there is no answer, or the connection is
    closed. Batches that take long to look at are looked at in another thread first."""
    if sum([1 + len(topic.partition_data) for topic in request.topic_data]) > MAX_PARTITIONS_AT_ONCE:
        return _produce_in_steps(plane, request, context)
    if run_steps(has_transactional_batch(request)):
        return _produce_transactionally(plane, request, context, now)
    sent = run_steps(_collect_batches(plane, request, context))
    return _examine_at_once(plane, request, context, now, sent, NO_VERIFICATION)


def _produce_in_steps(plane: DataPlane, request: ProduceRequest, context: Context) -> AnswerSteps:
    """Each partition is dealt with by itself, as in Kafka: what others send meanwhile comes between two of them."""
    yield StepMark.CHANGES
    verified = NO_VERIFICATION
    if (yield from has_transactional_batch(request)):
        sent, verified = yield from _collect_transactional_batches(plane, request, context)
    else:
        sent = yield from _collect_batches(plane, request, context)
    now: Now = yield None
    return (yield from _examine_in_thread(plane, request, context, now, sent, verified))


def _produce_transactionally(
    plane: DataPlane, request: ProduceRequest, context: Context, now: Now
) -> AnswerSteps:
    """Answer a Produce with batches of a transaction and few others, in as few steps as possible."""
    yield StepMark.CHANGES
    sent, verified = yield from run_internal_steps(
        _collect_transactional_batches(plane, request, context), now
    )
    later: Now = yield None
    answer = _examine_at_once(plane, request, context, later, sent, verified)
    return answer if isinstance(answer, Answer) else (yield from answer)


def _collect_transactional_batches(
    plane: DataPlane, request: ProduceRequest, context: Context
) -> StepGenerator[tuple[list[ReceivedBatch | ProduceError], VerifiedBatches]]:
    """What came for each partition, and what the batches of the transaction may begin it with. A transaction
    without a name is nobody's."""
    if request.transactional_id is None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return [
            ProduceError(code) for topic in request.topic_data for _ in topic.partition_data
        ], NO_VERIFICATION
    sent = yield from _collect_batches(plane, request, context)
    verified = yield from verify_transaction(plane, request, context, sent)
    return sent, verified


def _examine_at_once(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    sent: list[ReceivedBatch | ProduceError],
    verified: VerifiedBatches,
) -> Answer | AnswerSteps:
    """Batches that do not take long to look at are written before anybody else is answered."""
    try:
        examined = examine_batches(sent, now.wall_ms, DecompressionBudget.for_event_loop(), may_refuse=False)
    except OverBudget:
        return _examine_in_thread(plane, request, context, now, sent, verified)
    batches = zip(sent, examined, strict=True)
    return run_steps(_append_all(plane, request, context, now, batches, verified), now)


def _examine_in_thread(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    sent: list[ReceivedBatch | ProduceError],
    verified: VerifiedBatches,
) -> AnswerSteps:
    """A large batch at a time, so that others' come in between. By the end, the time is another one."""
    budget = DecompressionBudget.for_request(
        sum(len(each.batch) for each in sent if isinstance(each, ReceivedBatch))
    )
    yield StepMark.CHANGES
    examined: list[ExaminedBatch] = []
    for piece in _split_batches(sent):
        examined += yield partial(examine_batches, piece, now.wall_ms, budget, may_refuse=True)
    later: Now = yield None
    batches = zip(sent, examined, strict=True)
    return (yield from _append_all(plane, request, context, later, batches, verified))


def _split_batches(sent: list[ReceivedBatch | ProduceError]) -> Iterator[list[ReceivedBatch | ProduceError]]:
    """Pieces of the batches, each small enough to be examined without delaying other requests."""
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


def _collect_batches(
    plane: DataPlane, request: ProduceRequest, context: Context
) -> StepGenerator[list[ReceivedBatch | ProduceError]]:
    """What came for each partition, in the order of the request, or what can be said against it before it is looked
    at."""
    sent: list[ReceivedBatch | ProduceError] = []
    for topic_data in request.topic_data:
        for number, data in enumerate(topic_data.partition_data):
            if number % PARTITIONS_PER_STEP == 0:
                yield None
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
    """The topic, if it has that partition. Raises ProduceError."""
    if topic is None:
        by_id = context.api_version >= TOPIC_IDS_VERSION
        raise ProduceError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not 0 <= index < len(topic.partitions):
        raise ProduceError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _append_all(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    batches: Iterator[tuple[ReceivedBatch | ProduceError, ExaminedBatch]],
    verified: VerifiedBatches,
) -> AnswerSteps:
    """Each batch that was found sound goes to its log, if its topic is still there. A request of few partitions is
    one step."""
    responses: list[TopicProduceResponse] = []
    changes: list[TopicChange] = []
    appended: list[HostedPartition] = []
    durable: list[tuple[PartitionLog, int]] = []
    has_error = False
    for topic_data in request.topic_data:
        response = TopicProduceResponse(
            name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=[]
        )
        responses.append(response)
        now = yield None
        for number, data in enumerate(topic_data.partition_data, 1):
            if number % PARTITIONS_PER_STEP == 0:
                now = yield None
            try:
                topic = find_topic(plane, topic_data, context.api_version)
                sent, examined = next(batches)
                if isinstance(sent, ProduceError):
                    raise sent
                topic = _check_partition_exists(topic, data.index, context)
                partition = topic.hosted[data.index]
                if topic.values is not sent.values or not plane.is_leader(partition.name, context):
                    # It was looked at by rules that have changed meanwhile, or the leader has. It is sent again.
                    raise ProduceError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                written = _append_batch(partition, examined, verified, now, changes)
            except ProduceError as error:
                has_error = True
                # Its traceback would keep this frame, and with it all that was sent.
                refused = _build_refused(data.index, error.with_traceback(None))
                _add_current_leader(plane, topic, refused, context)
                response.partition_responses.append(refused)
                continue
            if not written.is_duplicate:
                appended.append(partition)
            if partition.is_flushed_always:
                durable.append((written.log, written.end_offset))
            response.partition_responses.append(_build_accepted(data.index, written))
    # What was deleted between two steps need not last.
    durable = [(log, offset) for log, offset in durable if not log.is_deleted]
    if request.acks == 0:
        unawaited = [log for log, _ in durable]
        answer = Answer(CLOSE_CONNECTION if has_error else NO_RESPONSE, unawaited=unawaited, changes=changes)
    else:
        produced = ProduceResponse(responses=responses)
        if has_error:
            produced.node_endpoints = find_endpoints(
                _iterate_leaders(responses), plane.ownership, context.node
            )
        answer = Answer(produced, durable=durable, changes=changes)
    if appended and len(plane.fetch_purgatory):
        # Those whose records must reach the disk first are woken by `on_high_watermark_advanced`.
        names = [part.name for part in appended if not part.is_flushed_always]
        woken = [delayed for name in names for delayed in plane.fetch_purgatory.pop_satisfied(name)]
        answer.completions = plane.complete_fetches(woken, now.monotonic_ms)
    return answer


def _add_current_leader(
    plane: DataPlane, topic: Topic | None, refused: PartitionProduceResponse, context: Context
) -> None:
    """Has a refusal say who leads the partition, if another broker does, and it is still there."""
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
    """Writes a batch, or finds that it has been written. Raises ProduceError."""
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
