"""Produce: record batches from producers, stored as they came once they are found sound.

What is checked, and in which order, decides which error a producer sees: first what the request says about
itself (topics, one batch a partition, acks), then the batch (size, checksum, contents, times), then its
place among the batches of its producer. A partition that is refused does not keep the others from being
written.

Source: Kafka's `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`,
`ReplicaManager.appendRecords`, `UnifiedLog.append`, `LogValidator`; KIP-98, KIP-467. Batches of a transaction may
have to wait for its coordinator first (`produced_transaction.py`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from coordinator.answers import GOODBYE, NO_ANSWER
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, PartitionFailed, SegmentRolled, TopicChange
from coordinator.topics.current_leader import IN_PRODUCE_SINCE, current_leader, endpoints
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.partition import HostedPartition
from coordinator.topics.produced_batch import (
    NO_OFFSET,
    Examined,
    ProduceRefused,
    Sent,
    examine_all,
    one_batch,
)
from coordinator.topics.produced_transaction import (
    NONE_HELD,
    STEP,
    TOPIC_IDS_SINCE,
    Verified,
    check_producer,
    is_transactional,
    topic_of,
    verify,
)
from coordinator.topics.steps import Mark, Work, but_for_others, taken
from coordinator.topics.topic import Topic
from protocol.current_leader import LeaderIdAndEpoch
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from storage.batch import NO_TIMESTAMP
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.unpack_budget import OverBudget, UnpackBudget

VALID_ACKS: Final = (-1, 0, 1)
MOST_AT_ONCE: Final = 500
"""Partitions of a request that is answered without a step, and that are looked at in one go."""
EXAMINED_BYTES: Final = 64 * 1024
"""Of small batches so many are looked at in one go."""


class Written(NamedTuple):
    """Where a batch is, and the time it was given (-1: it has its producer's)."""

    partition: HostedPartition
    log: PartitionLog
    base_offset: int
    end_offset: int
    log_append_time_ms: int
    is_duplicate: bool


def answer_produce(plane: DataPlane, request: ProduceRequest, context: Context, now: Now) -> Answer | Steps:
    """Each partition's batch is written or refused on its own. With acks 0 there is no answer, or the connection is
    closed. Batches that take long to look at are looked at in another thread first."""
    if sum([1 + len(topic.partition_data) for topic in request.topic_data]) > MOST_AT_ONCE:
        return _take_steps(plane, request, context)
    if taken(is_transactional(request)):
        return _write_transaction(plane, request, context, now)
    sent = taken(_sent(plane, request, context))
    return _examine_at_once(plane, request, context, now, sent, NONE_HELD)


def _take_steps(plane: DataPlane, request: ProduceRequest, context: Context) -> Steps:
    """Each partition is dealt with by itself, as in Kafka: what others send meanwhile comes between two of them."""
    yield Mark.CHANGES
    verified = NONE_HELD
    if (yield from is_transactional(request)):
        sent, verified = yield from _sent_in_transaction(plane, request, context)
    else:
        sent = yield from _sent(plane, request, context)
    now: Now = yield None
    return (yield from _examine_elsewhere(plane, request, context, now, sent, verified))


def _write_transaction(plane: DataPlane, request: ProduceRequest, context: Context, now: Now) -> Steps:
    """The same for a request with batches of a transaction, and not many others."""
    yield Mark.CHANGES
    sent, verified = yield from but_for_others(_sent_in_transaction(plane, request, context), now)
    later: Now = yield None
    answer = _examine_at_once(plane, request, context, later, sent, verified)
    return answer if isinstance(answer, Answer) else (yield from answer)


def _sent_in_transaction(
    plane: DataPlane, request: ProduceRequest, context: Context
) -> Work[tuple[list[Sent | ProduceRefused], Verified]]:
    """What came for each partition, and what the batches of the transaction may begin it with. A transaction
    without a name is nobody's."""
    if request.transactional_id is None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return [ProduceRefused(code) for topic in request.topic_data for _ in topic.partition_data], NONE_HELD
    sent = yield from _sent(plane, request, context)
    verified = yield from verify(plane, request, context, sent)
    return sent, verified


def _examine_at_once(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    sent: list[Sent | ProduceRefused],
    verified: Verified,
) -> Answer | Steps:
    """Batches that do not take long to look at are written before anybody else is answered."""
    try:
        examined = examine_all(sent, now.wall_ms, UnpackBudget.at_once(), may_refuse=False)
    except OverBudget:
        return _examine_elsewhere(plane, request, context, now, sent, verified)
    batches = zip(sent, examined, strict=True)
    return taken(_write_all(plane, request, context, now, batches, verified), now)


def _examine_elsewhere(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    sent: list[Sent | ProduceRefused],
    verified: Verified,
) -> Steps:
    """A large batch at a time, so that others' come in between. By the end, the time is another one."""
    budget = UnpackBudget.of_request(sum(len(each.batch) for each in sent if isinstance(each, Sent)))
    yield Mark.CHANGES
    examined: list[Examined] = []
    for some in _in_pieces(sent):
        examined += yield partial(examine_all, some, now.wall_ms, budget, may_refuse=True)
    later: Now = yield None
    batches = zip(sent, examined, strict=True)
    return (yield from _write_all(plane, request, context, later, batches, verified))


def _in_pieces(sent: list[Sent | ProduceRefused]) -> Iterator[list[Sent | ProduceRefused]]:
    """As many as can be looked at without being long in the way of others."""
    piece: list[Sent | ProduceRefused] = []
    size_bytes = 0
    for each in sent:
        each_bytes = len(each.batch) if isinstance(each, Sent) else 0
        if piece and (size_bytes + each_bytes > EXAMINED_BYTES or len(piece) >= MOST_AT_ONCE):
            yield piece
            piece, size_bytes = [], 0
        piece.append(each)
        size_bytes += each_bytes
    if piece:
        yield piece


def _sent(plane: DataPlane, request: ProduceRequest, context: Context) -> Work[list[Sent | ProduceRefused]]:
    """What came for each partition, in the order of the request, or what can be said against it before it is looked
    at."""
    sent: list[Sent | ProduceRefused] = []
    for topic_data in request.topic_data:
        for number, data in enumerate(topic_data.partition_data):
            if number % STEP == 0:
                yield None
            topic = topic_of(plane, topic_data, context.api_version)
            try:
                topic = _admit(topic, data.index, context)
                batch = one_batch(data.records, context.api_version)
                if request.acks not in VALID_ACKS:
                    raise ProduceRefused(ErrorCode.INVALID_REQUIRED_ACKS)
                if topic.is_internal:
                    raise ProduceRefused(ErrorCode.INVALID_TOPIC_EXCEPTION)
                if not plane.leads(topic.hosted[data.index].name, context):
                    raise ProduceRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            except ProduceRefused as error:
                sent.append(error.with_traceback(None))
            else:
                sent.append(Sent(batch, topic.values))
    return sent


def _admit(topic: Topic | None, index: int, context: Context) -> Topic:
    """The topic, if it has that partition. Raises ProduceRefused."""
    if topic is None:
        by_id = context.api_version >= TOPIC_IDS_SINCE
        raise ProduceRefused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not 0 <= index < len(topic.partitions):
        raise ProduceRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _write_all(
    plane: DataPlane,
    request: ProduceRequest,
    context: Context,
    now: Now,
    batches: Iterator[tuple[Sent | ProduceRefused, Examined]],
    verified: Verified,
) -> Steps:
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
            if number % STEP == 0:
                now = yield None
            try:
                topic = topic_of(plane, topic_data, context.api_version)
                sent, examined = next(batches)
                if isinstance(sent, ProduceRefused):
                    raise sent
                topic = _admit(topic, data.index, context)
                partition = topic.hosted[data.index]
                if topic.values is not sent.values or not plane.leads(partition.name, context):
                    # It was looked at by rules that have changed meanwhile, or the leader has. It is sent again.
                    raise ProduceRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                written = _write(partition, examined, verified, now, changes)
            except ProduceRefused as error:
                has_error = True
                # Its traceback would keep this frame, and with it all that was sent.
                refused = _refused(data.index, error.with_traceback(None))
                _tell_leader(plane, topic, refused, context)
                response.partition_responses.append(refused)
                continue
            if not written.is_duplicate:
                appended.append(partition)
            if partition.is_flushed_always:
                durable.append((written.log, written.end_offset))
            response.partition_responses.append(_accepted(data.index, written))
    # What was deleted between two steps need not last.
    durable = [(log, offset) for log, offset in durable if not log.is_deleted]
    if request.acks == 0:
        unawaited = [log for log, _ in durable]
        answer = Answer(GOODBYE if has_error else NO_ANSWER, unawaited=unawaited, changes=changes)
    else:
        produced = ProduceResponse(responses=responses)
        if has_error:
            produced.node_endpoints = endpoints(_leaders(responses), plane.ownership, context.node)
        answer = Answer(produced, durable=durable, changes=changes)
    if appended and len(plane.parked):
        # Those whose records must reach the disk first are woken by `advanced`.
        names = [part.name for part in appended if not part.is_flushed_always]
        woken = [parked for name in names for parked in plane.parked.woken_by(name)]
        answer.completions = plane.complete(woken, now.monotonic_ms)
    return answer


def _tell_leader(
    plane: DataPlane, topic: Topic | None, refused: PartitionProduceResponse, context: Context
) -> None:
    """Has a refusal say who leads the partition, if another broker does, and it is still there."""
    is_told = context.api_version >= IN_PRODUCE_SINCE
    is_there = topic is not None and 0 <= refused.index < len(topic.partitions)
    if is_told and refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and is_there:
        assert topic is not None
        refused.current_leader = current_leader(topic.partitions[refused.index], plane.ownership)


def _leaders(responses: list[TopicProduceResponse]) -> Iterator[LeaderIdAndEpoch]:
    for response in responses:
        for part in response.partition_responses:
            if part.current_leader is not None:
                yield part.current_leader


def _write(
    partition: HostedPartition, examined: Examined, verified: Verified, now: Now, changes: list[TopicChange]
) -> Written:
    """Writes a batch, or finds that it has been written. Raises ProduceRefused."""
    log = partition.usable_log(now.monotonic_ms)
    if log is None:
        raise ProduceRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    start = log.log_start_offset
    if isinstance(examined, ProduceRefused):
        examined.log_start_offset = start if examined.tells_log_start else NO_OFFSET
        raise examined
    (batch, values), valid = examined
    if len(batch) > log.config.segment_bytes:
        raise ProduceRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {len(batch)} bytes does not fit a segment of {log.config.segment_bytes}",
            log_start_offset=start,
        )
    header = valid.header
    producers = partition.producers
    assert producers is not None, partition.name
    if header.producer_id >= 0:
        first = producers.state.duplicate_of(header)
        if first is not None:
            return Written(
                partition, log, first.first_offset, first.last_offset + 1, first.timestamp_ms, True
            )
        check_producer(partition, header, verified)
    why_not = partition.why_not(len(batch))
    if why_not is not None:
        raise ProduceRefused(why_not, log_start_offset=start)
    try:
        if values.is_log_append_time:
            result = log.append(batch, log_append_time_ms=now.wall_ms)
        else:
            result = log.append(batch, max_timestamp_ms=valid.max_timestamp_ms)
    except (StorageError, OSError) as error:
        changes.append(PartitionFailed(*partition.name, reason_of(error)))
        raise ProduceRefused(ErrorCode.KAFKA_STORAGE_ERROR) from error
    if result.is_rolled:
        changes.append(SegmentRolled(*partition.name, log))
    latest_ms = now.wall_ms if values.is_log_append_time else valid.max_timestamp_ms
    producers.appended(header, result, latest_ms)
    append_time_ms = now.wall_ms if values.is_log_append_time else NO_TIMESTAMP
    return Written(partition, log, result.base_offset, result.last_offset + 1, append_time_ms, False)


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
