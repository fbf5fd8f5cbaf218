"""The transaction that the batches of a Produce request are of, and whether they may begin it in their partitions.

Where their producer has a transaction open they may go on with it. For all other partitions of the request its
coordinator is asked, in one question: producers that add partitions themselves (before version 12) are *verified*,
for the others it adds the partitions. While the answer is on its way each batch holds a verification, so that one
whose transaction is ended meanwhile is found out when it is written.

Source: Kafka's `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`,
`UnifiedLog.analyzeAndValidateProducerState`; KIP-98, KIP-890.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from coordinator.machine.outcome import Context, Now
from coordinator.topics.consent import AskConsent, Consent
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.partition import HostedPartition
from coordinator.topics.produced_batch import ProduceRefused, Sent
from coordinator.topics.steps import Work
from coordinator.topics.topic import Topic
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import BatchHeader, read_header
from storage.batch_peek import peek_is_transactional
from storage.errors import CorruptBatch
from storage.producers.log_producers import LogProducers
from storage.producers.producer_state import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TooManyProducers,
    Verification,
)
from storage.topic_partition import TopicPartition

TOPIC_IDS_SINCE: Final = 13
ABORTABLE_SINCE: Final = 11
ADDS_SINCE: Final = 12
STEP: Final = 50
"""Partitions of one topic that are one step."""

_CODES: Final = {
    InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    TooManyProducers: ErrorCode.POLICY_VIOLATION,
}
_COMES_BACK: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Held(NamedTuple):
    """What a batch may begin its transaction with, and the producers that know of it: when the log is opened anew,
    there are others."""

    producers: LogProducers
    verification: Verification


class Verified(NamedTuple):
    """What the batches of a request may begin their transaction with; whether they need that."""

    is_needed: bool
    held: Mapping[TopicPartition, Held]


NONE_HELD: Final = Verified(is_needed=True, held={})
"""Of a request without transactional batches."""


class _Batch(NamedTuple):
    """A transactional one: its place in the request, and what its header says."""

    place: int
    partition: HostedPartition
    header: BatchHeader


def topic_of(plane: DataPlane, topic_data: TopicProduceData, version: int) -> Topic | None:
    """The topic that a part of a request is for, by id or by name."""
    if version >= TOPIC_IDS_SINCE:
        return plane.catalogue.get_by_id(topic_data.topic_id)
    return plane.catalogue.get(topic_data.name)


def is_transactional(request: ProduceRequest) -> Work[bool]:
    """Whether any batch is of a transaction."""
    for topic_data in request.topic_data:
        for number, data in enumerate(topic_data.partition_data):
            if number % STEP == 0:
                yield None
            if data.records is not None and peek_is_transactional(data.records):
                return True
    return False


def verify(
    plane: DataPlane, request: ProduceRequest, context: Context, sent: list[Sent | ProduceRefused]
) -> Work[Verified]:
    """Asks the coordinator where that is needed. What must not be written is replaced in `sent` by the reason."""
    batches = yield from _transactional(plane, request, context, sent)
    if len({(batch.header.producer_id, batch.header.producer_epoch) for batch in batches}) > 1:
        why = "the transactional batches of a request are of one producer"
        sent[:] = [ProduceRefused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, why) for _ in sent]
        return NONE_HELD
    is_needed = plane.config.transaction_partition_verification_enable
    adds = context.api_version >= ADDS_SINCE
    held: dict[TopicPartition, Held] = {}
    asking: list[_Batch] = []
    now: Now = yield None
    for batch in batches if is_needed or adds else ():
        try:
            begins = _hold(batch, now, adds=adds)
        except ProduceRefused as error:
            sent[batch.place] = error.with_traceback(None)
            continue
        if begins is not None:
            held[batch.partition.name] = begins
            asking.append(batch)
    if asking:
        assert request.transactional_id is not None
        _, _, header = asking[0]
        question = AskConsent(
            request.transactional_id,
            header.producer_id,
            header.producer_epoch,
            list(held),
            adds,
            context.api_version >= ABORTABLE_SINCE,
        )
        consent: Consent = yield question
        for batch in asking:
            refused = _refusal(consent[batch.partition.name], question)
            if refused is not None:
                sent[batch.place] = refused
    return Verified(is_needed, held)


def check_producer(partition: HostedPartition, header: BatchHeader, verified: Verified) -> None:
    """Whether a producer's batch that is no duplicate may be written now. Raises ProduceRefused."""
    log, producers = partition.log, partition.producers
    assert log is not None, partition.name
    assert producers is not None, partition.name
    held = verified.held.get(partition.name) if verified.held else None
    if held is not None and held.producers is not producers:
        # The log was opened anew after the question. The producer sends it again.
        raise ProduceRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    verification = None if held is None else held.verification
    try:
        producers.state.check(header, verification, is_verified=verified.is_needed)
    except tuple(_CODES) as error:
        code, start = _CODES[type(error)], log.log_start_offset
        raise ProduceRefused(code, str(error), log_start_offset=start) from error


def _transactional(
    plane: DataPlane, request: ProduceRequest, context: Context, sent: list[Sent | ProduceRefused]
) -> Work[list[_Batch]]:
    """The batches that are of a transaction. Their headers are read as they came: nobody has checked them yet."""
    batches = []
    for place, (topic_data, data) in enumerate(_parts(request)):
        if place % STEP == 0:
            yield None
        each = sent[place]
        if isinstance(each, ProduceRefused) or not peek_is_transactional(each.batch):
            continue
        topic = topic_of(plane, topic_data, context.api_version)
        if topic is None or not 0 <= data.index < len(topic.hosted):
            continue  # gone since; said when the others are written
        try:
            header = read_header(each.batch)
        except CorruptBatch:
            continue  # refused when it is looked at
        if header.producer_id >= 0:
            batches.append(_Batch(place, topic.hosted[data.index], header))
    return batches


def _parts(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for topic_data in request.topic_data:
        for data in topic_data.partition_data:
            yield topic_data, data


def _hold(batch: _Batch, now: Now, *, adds: bool) -> Held | None:
    """What a batch has to hold while its coordinator is asked; None where it goes on with what is open. Raises
    ProduceRefused."""
    partition = batch.partition
    if partition.usable_log(now.monotonic_ms) is None:
        raise ProduceRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    producers = partition.producers
    assert producers is not None, partition.name
    try:
        if not producers.state.needs_verification(batch.header):
            return None
    except InvalidProducerEpoch as error:
        raise ProduceRefused(ErrorCode.INVALID_PRODUCER_EPOCH, str(error)) from error
    return Held(producers, producers.state.verify(batch.header, now.wall_ms, adds=adds))


def _refusal(code: ErrorCode, question: AskConsent) -> ProduceRefused | None:
    """What a producer is told of its coordinator's answer. One that does not know an error gets one that makes it
    do what is right."""
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.PRODUCER_FENCED:
        return ProduceRefused(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not question.is_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return ProduceRefused(code, "Partition was not added to the transaction")
    if code in _COMES_BACK or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not question.adds):
        why = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        )
        return ProduceRefused(ErrorCode.NOT_ENOUGH_REPLICAS, why)
    return ProduceRefused(code)
