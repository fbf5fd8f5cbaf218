"""Transactional ids: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn.

Source: Kafka's `KafkaApis.handleInitProducerIdRequest`, `handleAddPartitionsToTransactionRequest`,
`handleAddOffsetsToTxnRequest`, `handleEndTxnRequest`.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from coordinator.engine.place import Asker
from coordinator.names import CONSUMER_OFFSETS
from coordinator.net.caller import Caller
from coordinator.net.route import Handler
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.merge import Combining, Merge, Put
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic_name import is_internal
from coordinator.transactions.requests import AddPartitions, PartitionsAdded
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.partitioner import partition_for

FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that may say PRODUCER_FENCED."""
BATCHES_SINCE: Final = 4
_NOT_GIVEN: Final = -1
_LEVEL_OF_CLIENTS: Final = 0
_LEVEL_OF_BROKERS: Final = 2

Errors = Mapping[tuple[str, int], ErrorCode]
"""By topic and partition, in the order of the request."""


class TransactionsHandler:
    """Answers producers about their transactions."""

    def __init__(
        self,
        router: TransactionRouter,
        catalogue: Catalogue,
        run_queue: RunQueue,
        offsets_partitions: int,
        without_transactions: Handler,
    ) -> None:
        """In: how many partitions the groups have; who answers InitProducerId for a producer without
        transactions."""
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue
        self._offsets_partitions = offsets_partitions
        self._without_transactions = without_transactions

    def init_producer_id(self, request: InitProducerIdRequest, caller: Caller) -> object:
        """InitProducerId: the next epoch of a transactional id, and the end of what its producer had open."""
        if request.transactional_id is None:
            return self._without_transactions(request, caller)
        is_whole = (request.producer_id == _NOT_GIVEN) == (request.producer_epoch == _NOT_GIVEN)
        if not request.transactional_id or not is_whole:
            return InitProducerIdResponse(
                error_code=ErrorCode.INVALID_REQUEST, producer_id=_NOT_GIVEN, producer_epoch=_NOT_GIVEN
            )
        return self._router.ask(request.transactional_id, request, self._router.context(caller), caller)

    def end_txn(self, request: EndTxnRequest, caller: Caller) -> object:
        """EndTxn: commit or abort."""
        if not request.transactional_id:
            return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        return self._router.ask(request.transactional_id, request, self._router.context(caller), caller)

    def add_offsets(self, request: AddOffsetsToTxnRequest, caller: Caller) -> object:
        """AddOffsetsToTxn: the partition of the offsets of a group."""
        number = partition_for(request.group_id, self._offsets_partitions)
        added = AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=[(CONSUMER_OFFSETS, number)],
            verify_only=False,
            transaction_version=_LEVEL_OF_CLIENTS,
        )
        version = caller.api_version

        def ask() -> Iterator[Put]:
            yield partial(self._ask, added, caller)

        def combine(answers: list[PartitionsAdded]) -> Combining:
            yield
            (error,) = answers[0].errors.values()
            return AddOffsetsToTxnResponse(error_code=_in_version(error, version))

        return Merge(combine, self._run_queue, version).answer(ask(), caller)

    def add_partitions(self, request: AddPartitionsToTxnRequest, caller: Caller) -> object:
        """AddPartitionsToTxn: of one transaction, or of several, each by itself."""
        version = caller.api_version
        is_batch = version >= BATCHES_SINCE
        transactions = request.transactions if is_batch else [_single(request)]
        found: list[Errors | None] = []
        """What is said of each transaction without its coordinator; None where that is asked."""

        def ask() -> Iterator[Put | None]:
            for transaction in transactions:
                refused = yield from self._sift(transaction.topics, is_batch=is_batch)
                found.append(refused)
                if refused is None:
                    yield partial(self._ask, _added(transaction, is_batch=is_batch), caller)

        def combine(answers: list[PartitionsAdded]) -> Combining:
            yield
            answered = iter(answers)
            results = []
            for transaction, refused in zip(transactions, found, strict=True):
                errors = next(answered).errors if refused is None else refused
                topics = []
                for topic in transaction.topics:
                    topics.append(_result(topic, errors, version))
                    yield
                results.append(
                    AddPartitionsToTxnResult(
                        transactional_id=transaction.transactional_id, topic_results=topics
                    )
                )
            if is_batch:
                return AddPartitionsToTxnResponse(error_code=ErrorCode.NONE, results_by_transaction=results)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)

        return Merge(combine, self._run_queue, version).answer(ask(), caller)

    def _sift(
        self, topics: Sequence[AddPartitionsToTxnTopic], *, is_batch: bool
    ) -> Generator[None, None, Errors | None]:
        """What stands against partitions that are not there or nobody may write to, and against all others then;
        None where there is nothing. In steps."""
        errors: dict[tuple[str, int], ErrorCode] = {}
        is_refused = False
        for asked in topics:
            topic = self._catalogue.get(asked.name)
            count = 0 if topic is None else len(topic.partitions)
            for number in asked.partitions:
                error = ErrorCode.OPERATION_NOT_ATTEMPTED
                if is_internal(asked.name) and not is_batch:  # which brokers send, for groups too
                    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif not 0 <= number < count:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                is_refused |= error is not ErrorCode.OPERATION_NOT_ATTEMPTED
                errors[asked.name, number] = error
            yield None
        return errors if is_refused else None

    def _ask(self, request: AddPartitions, caller: Caller, asker: Asker) -> object:
        return self._router.ask(request.transactional_id, request, self._router.context(caller), asker)


def _single(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _added(transaction: AddPartitionsToTxnTransaction, *, is_batch: bool) -> AddPartitions:
    return AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=[(topic.name, number) for topic in transaction.topics for number in topic.partitions],
        verify_only=transaction.verify_only,
        transaction_version=_LEVEL_OF_BROKERS if is_batch else _LEVEL_OF_CLIENTS,
    )


def _result(topic: AddPartitionsToTxnTopic, errors: Errors, version: int) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=number,
                partition_error_code=_in_version(errors[topic.name, number], version),
            )
            for number in topic.partitions
        ],
    )


def _in_version(error: ErrorCode, version: int) -> ErrorCode:
    """An error as clients of a version know it."""
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
