"""Verify that the transactional batches of a Produce request belong to an ongoing transaction.

A producer with an open transaction in a partition may continue it there. For all other partitions of the request
the broker sends the transaction coordinator one request. Producers that add partitions themselves (before version
12) are *verified*; for newer ones the coordinator adds the partitions. Each batch holds a verification guard until
the response arrives, so that the append detects a transaction that has ended meanwhile.

Source: Kafka's `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`,
`UnifiedLog.analyzeAndValidateProducerState`; KIP-98, KIP-890.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from coordinator.core.outcome import Context, Now
from coordinator.core.time_budget import Budget
from coordinator.topics.batch_validation import ProduceError, ReceivedBatch
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.long_work import AddOrVerifyRequest, LongWork
from coordinator.topics.partition import HostedPartition
from coordinator.topics.topic import Topic
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import BatchHeader, peek_is_transactional, read_header
from storage.producers.producer_state import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TooManyProducers,
    VerificationStateEntry,
)
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import CorruptBatch
from storage.topic_partition import TopicPartition

TOPIC_IDS_VERSION: Final = 13
ABORTABLE_VERSION: Final = 11
IMPLICIT_ADD_VERSION: Final = 12
PARTITIONS_PER_STEP: Final = 50
"""The number of partitions between two checkpoints."""

_CODES: Final = {
    InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    TooManyProducers: ErrorCode.POLICY_VIOLATION,
}
_RETRIABLE_ERRORS: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class HeldVerification(NamedTuple):
    """The verification guard of a batch and the producer state that issued it. Reopening the log replaces that
    state.
    """

    producers: ProducerStateManager
    verification: VerificationStateEntry


class VerifiedBatches(NamedTuple):
    """The verification guards of the batches of a request, and whether the batches need them."""

    is_needed: bool
    held: Mapping[TopicPartition, HeldVerification]


NO_VERIFICATION: Final = VerifiedBatches(is_needed=True, held={})
"""For requests without transactional batches."""


class _TransactionalBatch(NamedTuple):
    """A transactional batch: its position in the request and the fields of its header."""

    place: int
    partition: HostedPartition
    header: BatchHeader


def find_topic(plane: DataPlane, topic_data: TopicProduceData, version: int) -> Topic | None:
    """Find the topic of a part of a request by id or name."""
    if version >= TOPIC_IDS_VERSION:
        return plane.catalogue.find_topic_by_id(topic_data.topic_id)
    return plane.catalogue.find_topic(topic_data.name)


async def has_transactional_batch(budget: Budget, request: ProduceRequest) -> bool:
    """Return whether the first batch of any partition is transactional. Kafka looks at no other batch."""
    count = 0
    for topic_data in request.topic_data:
        for data in topic_data.partition_data:
            count += 1
            if not count % PARTITIONS_PER_STEP:
                await budget.checkpoint()
            if data.records is not None and peek_is_transactional(data.records):
                return True
    return False


async def verify_transaction(
    plane: DataPlane,
    work: LongWork,
    request: ProduceRequest,
    context: Context,
    sent: list[ReceivedBatch | ProduceError],
) -> VerifiedBatches:
    """Add or verify partitions at the transaction coordinator where needed. In `sent`, the error replaces each
    batch that must not be written.
    """
    batches = await _find_transactional_batches(plane, work, request, context, sent)
    if len({(batch.header.producer_id, batch.header.producer_epoch) for batch in batches}) > 1:
        message = "the transactional batches of a request are of one producer"
        sent[:] = [ProduceError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message) for _ in sent]
        return NO_VERIFICATION
    is_needed = plane.config.transaction_partition_verification_enable
    adds = context.api_version >= IMPLICIT_ADD_VERSION
    held: dict[TopicPartition, HeldVerification] = {}
    unverified: list[_TransactionalBatch] = []
    await work.checkpoint()
    now = work.now()
    for batch in batches if is_needed or adds else ():
        try:
            begins = _hold_verification(batch, now, adds=adds)
        except ProduceError as error:
            sent[batch.place] = error.with_traceback(None)
            continue
        if begins is not None:
            held[batch.partition.name] = begins
            unverified.append(batch)
    if unverified:
        assert request.transactional_id is not None
        _, _, header = unverified[0]
        question = AddOrVerifyRequest(
            request.transactional_id,
            header.producer_id,
            header.producer_epoch,
            list(held),
            adds,
            context.api_version >= ABORTABLE_VERSION,
        )
        errors = await work.add_or_verify_partitions(question)
        for batch in unverified:
            refused = _convert_error(errors[batch.partition.name], question)
            if refused is not None:
                sent[batch.place] = refused
    return VerifiedBatches(is_needed, held)


def check_producer(partition: HostedPartition, header: BatchHeader, verified: VerifiedBatches) -> None:
    """Check that a non-duplicate batch of a producer may be written now.

    Raises:
        ProduceError: the batch must be rejected.
    """
    log, producers = partition.log, partition.producers
    assert log is not None, partition.name
    assert producers is not None, partition.name
    held = verified.held.get(partition.name) if verified.held else None
    if held is not None and held.producers is not producers:
        # The log was reopened since the verification. The producer retries.
        raise ProduceError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    verification = None if held is None else held.verification
    try:
        producers.state.check_batch(header, verification, is_verified=verified.is_needed)
    except tuple(_CODES) as error:
        code, start = _CODES[type(error)], log.log_start_offset
        raise ProduceError(code, str(error), log_start_offset=start) from error


async def _find_transactional_batches(
    plane: DataPlane,
    work: LongWork,
    request: ProduceRequest,
    context: Context,
    sent: list[ReceivedBatch | ProduceError],
) -> list[_TransactionalBatch]:
    """Find the transactional batches. Their headers come from the client and are not validated yet."""
    batches = []
    for place, (topic_data, data) in enumerate(_iterate_partitions(request)):
        if place % PARTITIONS_PER_STEP == 0:
            await work.checkpoint()
        each = sent[place]
        if isinstance(each, ProduceError) or not peek_is_transactional(each.batch):
            continue
        topic = find_topic(plane, topic_data, context.api_version)
        if topic is None or not 0 <= data.index < len(topic.hosted):
            continue  # deleted since; the append reports it
        try:
            header = read_header(each.batch)
        except CorruptBatch:
            continue  # the validation of the batch rejects it
        if header.producer_id >= 0:
            batches.append(_TransactionalBatch(place, topic.hosted[data.index], header))
    return batches


def _iterate_partitions(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for topic_data in request.topic_data:
        for data in topic_data.partition_data:
            yield topic_data, data


def _hold_verification(batch: _TransactionalBatch, now: Now, *, adds: bool) -> HeldVerification | None:
    """Create the guard that a batch holds during its verification; None if it continues an open transaction.

    Raises:
        ProduceError: the batch must be rejected.
    """
    partition = batch.partition
    if partition.usable_log(now.monotonic_ms) is None:
        raise ProduceError(ErrorCode.KAFKA_STORAGE_ERROR)
    producers = partition.producers
    assert producers is not None, partition.name
    try:
        if not producers.state.needs_verification(batch.header):
            return None
    except InvalidProducerEpoch as error:
        raise ProduceError(ErrorCode.INVALID_PRODUCER_EPOCH, str(error)) from error
    return HeldVerification(
        producers, producers.state.begin_verification(batch.header, now.wall_ms, adds_partition=adds)
    )


def _convert_error(code: ErrorCode, question: AddOrVerifyRequest) -> ProduceError | None:
    """Convert the coordinator's error to one that the producer knows. Older producers get an error with the same
    reaction.
    """
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.PRODUCER_FENCED:
        return ProduceError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not question.is_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return ProduceError(code, "Partition was not added to the transaction")
    if code in _RETRIABLE_ERRORS or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not question.adds):
        message = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        )
        return ProduceError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    return ProduceError(code)
