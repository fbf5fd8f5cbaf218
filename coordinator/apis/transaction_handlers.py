"""Handlers of transaction APIs: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn of producers,
DescribeTransactions and ListTransactions of admin clients, WriteTxnMarkers of brokers and of `kafka-transactions.sh
abort`.

Source: Kafka's `KafkaApis.handleInitProducerIdRequest`, `handleAddPartitionsToTransactionRequest`,
`handleAddOffsetsToTxnRequest`, `handleEndTxnRequest`, `handleDescribeTransactionsRequest`,
`handleListTransactionsRequest`, `handleWriteTxnMarkersRequest`; KIP-664, KIP-994, KIP-1152.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from coordinator.apis.request_task import PartResponses, SendPart, gather_parts, in_pieces
from coordinator.apis.transaction_markers import TransactionEnd, TransactionMarkerWriter
from coordinator.apis.transaction_router import TransactionRouter
from coordinator.core.reply import DeferReply, defer_mapped
from coordinator.core.response_status import AWAITING_DISK, DeferredResponse
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.core.time_budget import Budget
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic_name import is_internal
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    DescribeTransaction,
    ListTransactions,
)
from coordinator.transactions.transaction_state_machine import TransactionState
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
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
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.partitioner import partition_for
from storage.topic_partition import TopicPartition

FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn from which on PRODUCER_FENCED is allowed."""
BATCHES_SINCE: Final = 4
_NO_VALUE: Final = -1
_CLIENT_LEVEL: Final = 0
_BROKER_LEVEL: Final = 2
Errors = Mapping[tuple[str, int], ErrorCode]
"""Errors by topic and partition, in the order of the request."""


class TransactionsHandler:
    """Answers producers about their transactions."""

    def __init__(
        self,
        router: TransactionRouter,
        catalogue: Catalogue,
        offsets_partitions: int,
        without_transactions: Handler,
    ) -> None:
        """Create the handler.

        Args:
            offsets_partitions: the number of partitions of `__consumer_offsets`.
            without_transactions: answers InitProducerId for a producer without transactions.
        """
        self._router = router
        self._catalogue = catalogue
        self._offsets_partitions = offsets_partitions
        self._without_transactions = without_transactions

    def init_producer_id(self, request: InitProducerIdRequest, context: RequestContext) -> object:
        """Answer an InitProducerId: bump the epoch of a transactional id, and abort the open transaction of its
        previous producer. A producer without a transactional id only gets a producer id.
        """
        if request.transactional_id is None:
            return self._without_transactions(request, context)
        is_whole = (request.producer_id == _NO_VALUE) == (request.producer_epoch == _NO_VALUE)
        if not request.transactional_id or not is_whole:
            return build_error_response(request, context.api_version, ErrorCode.INVALID_REQUEST)
        return self._router.ask_coordinator(
            request.transactional_id, request, self._router.create_machine_context(context), context.defer
        )

    def end_txn(self, request: EndTxnRequest, context: RequestContext) -> object:
        """Answer an EndTxn: commit or abort."""
        if not request.transactional_id:
            return build_error_response(request, context.api_version, ErrorCode.INVALID_REQUEST)
        return self._router.ask_coordinator(
            request.transactional_id, request, self._router.create_machine_context(context), context.defer
        )

    def add_offsets(self, request: AddOffsetsToTxnRequest, context: RequestContext) -> object:
        """Answer an AddOffsetsToTxn: add the partition with the offsets of a group."""
        number = partition_for(request.group_id, self._offsets_partitions)
        added = AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=[(CONSUMER_OFFSETS, number)],
            verify_only=False,
            transaction_version=_CLIENT_LEVEL,
        )
        finish = partial(_create_add_offsets_response, context.api_version)
        response = self._ask_coordinator(added, context, partial(defer_mapped, context.defer, finish))
        return response if isinstance(response, DeferredResponse) else finish(response)

    async def add_partitions(
        self, request: AddPartitionsToTxnRequest, context: RequestContext, budget: Budget
    ) -> AddPartitionsToTxnResponse:
        """Add partitions to one transaction (up to v3), or to several, each by itself."""
        version = context.api_version
        is_batch = version >= BATCHES_SINCE
        transactions = request.transactions if is_batch else [_to_transaction(request)]
        refusals: list[Errors | None] = []
        """The errors of each transaction that does not reach its coordinator; None for the others."""
        with PartResponses(context) as responses:
            for transaction in transactions:
                await budget.checkpoint()
                refused = await self._check_partitions(transaction.topics, budget, is_batch=is_batch)
                refusals.append(refused)
                if refused is None:
                    added = await _create_add_partitions(transaction, budget, is_batch=is_batch)
                    budget.begin_changes()
                    responses.send(partial(self._ask_coordinator, added, context))
            answers: Iterator[AddPartitionsResult] = iter(await responses)
        results = []
        for transaction, refused in zip(transactions, refusals, strict=True):
            errors = next(answers).errors if refused is None else refused
            topics = [
                await _create_topic_result(topic, errors, version, budget) for topic in transaction.topics
            ]
            results.append(
                AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
            )
        if is_batch:
            return AddPartitionsToTxnResponse(error_code=ErrorCode.NONE, results_by_transaction=results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)

    async def _check_partitions(
        self, topics: Sequence[AddPartitionsToTxnTopic], budget: Budget, *, is_batch: bool
    ) -> Errors | None:
        """Return the errors of all partitions when one of them cannot be added; None when all can.

        Topics are checked in steps. A topic that is deleted between two of them can still be added, as if it had
        been deleted afterwards: a deleted partition needs no marker.
        """
        errors: dict[tuple[str, int], ErrorCode] = {}
        is_refused = False
        for requested in topics:
            topic = self._catalogue.find_topic(requested.name)
            count = 0 if topic is None else len(topic.partitions)
            # Brokers send batches, also with the partitions of `__consumer_offsets`.
            is_forbidden = is_internal(requested.name) and not is_batch
            for piece in in_pieces(requested.partitions):
                for number in piece:
                    error = ErrorCode.OPERATION_NOT_ATTEMPTED
                    if is_forbidden:
                        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    elif not 0 <= number < count:
                        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    is_refused |= error is not ErrorCode.OPERATION_NOT_ATTEMPTED
                    errors[requested.name, number] = error
                await budget.checkpoint()
        return errors if is_refused else None

    def _ask_coordinator(self, request: AddPartitions, context: RequestContext, defer: DeferReply) -> object:
        return self._router.ask_coordinator(
            request.transactional_id, request, self._router.create_machine_context(context), defer
        )


def _create_add_offsets_response(version: int, result: object) -> AddOffsetsToTxnResponse:
    assert isinstance(result, AddPartitionsResult)
    (error,) = result.errors.values()
    return AddOffsetsToTxnResponse(error_code=_convert_error(error, version))


def _to_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _create_add_partitions(
    transaction: AddPartitionsToTxnTransaction, budget: Budget, *, is_batch: bool
) -> AddPartitions:
    partitions: list[tuple[str, int]] = []
    for topic in transaction.topics:
        for piece in in_pieces(topic.partitions):
            partitions += [(topic.name, number) for number in piece]
            await budget.checkpoint()
    return AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=partitions,
        verify_only=transaction.verify_only,
        transaction_version=_BROKER_LEVEL if is_batch else _CLIENT_LEVEL,
    )


async def _create_topic_result(
    topic: AddPartitionsToTxnTopic, errors: Errors, version: int, budget: Budget
) -> AddPartitionsToTxnTopicResult:
    result = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=[])
    for piece in in_pieces(topic.partitions):
        result.results_by_partition += [
            AddPartitionsToTxnPartitionResult(
                partition_index=number,
                partition_error_code=_convert_error(errors[topic.name, number], version),
            )
            for number in piece
        ]
        await budget.checkpoint()
    return result


def _convert_error(error: ErrorCode, version: int) -> ErrorCode:
    """Convert an error to one that the version knows."""
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


_STATES: Final = frozenset(state.value for state in TransactionState)
PATTERN_MEMORY_BYTES: Final = 16 * 1024
"""Limit for a compiled pattern and for its matching. It allows patterns as long as realistic ids. Matching an id of
32 kB then blocks the loop for a few hundredths of a second; with RE2's own limit it takes minutes.
"""

Matches = Callable[[str], bool]
"""Returns whether an id matches a pattern."""


class TransactionAdminHandler:
    """Answers requests of admin clients about transactions."""

    def __init__(self, router: TransactionRouter) -> None:
        self._router = router

    async def describe_transactions(
        self, request: DescribeTransactionsRequest, context: RequestContext, budget: Budget
    ) -> DescribeTransactionsResponse:
        """Describe each transactional id, in the order of the request. A repeated id is described once: a
        description takes as much memory as the transaction has partitions.
        """
        transactional_ids = dict.fromkeys(request.transactional_ids)
        parts = (
            partial(
                self._router.ask_coordinator,
                transactional_id,
                DescribeTransaction(transactional_id),
                self._router.create_machine_context(context),
            )
            for transactional_id in transactional_ids
        )
        states = await gather_parts(parts, context, budget)
        by_id = dict(zip(transactional_ids, states, strict=True))
        return DescribeTransactionsResponse(
            transaction_states=[by_id[each] for each in request.transactional_ids]
        )

    async def list_transactions(
        self, request: ListTransactionsRequest, context: RequestContext, budget: Budget
    ) -> object:
        """List the ids that pass all filters, of every partition that is in service; answer with an error while one
        is loading.
        """
        unknown = [name for name in request.state_filters if name not in _STATES]
        error = self._find_availability_error()
        matches: Matches = _match_all
        if error is ErrorCode.NONE and request.transactional_id_pattern:
            found = _compile_pattern(request.transactional_id_pattern)
            if found is None:
                error = ErrorCode.INVALID_REGULAR_EXPRESSION
            else:
                matches = found
        if error is not ErrorCode.NONE:
            return build_error_response(request, context.api_version, error)
        part_request = ListTransactions(
            request.state_filters, request.producer_id_filters, request.duration_filter
        )

        transactions = []
        for response in await gather_parts(self._iterate_lists(part_request, context), context, budget):
            if response.error_code:
                return build_error_response(request, context.api_version, ErrorCode(response.error_code))
            for state in response.transaction_states:
                if matches(state.transactional_id):
                    transactions.append(state)
                await budget.checkpoint()
        return ListTransactionsResponse(
            error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=transactions
        )

    def _iterate_lists(self, request: ListTransactions, context: RequestContext) -> Iterator[SendPart]:
        for partition in self._router.partitions:
            # A partition may have begun to load during the request: it answers with the error.
            if partition.machine is not None or partition.state is PartitionState.LOADING:
                machine_context = self._router.create_machine_context(context)
                yield partial(self._router.ask_partition, partition, request, machine_context)

    def _find_availability_error(self) -> ErrorCode:
        runtime = self._router.runtime
        if runtime.is_shut_down:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if any(partition.state is PartitionState.LOADING for partition in self._router.partitions):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE


def _match_all(_: str) -> bool:
    return True


def _compile_pattern(pattern: str) -> Matches | None:
    """Compile a pattern to a match of a whole id, in time linear in the lengths of both. None for an invalid or too
    large pattern.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None


class WriteTxnMarkersHandler:
    """Answers WriteTxnMarkers."""

    def __init__(self, writer: TransactionMarkerWriter) -> None:
        self._writer = writer

    async def handle(
        self, request: WriteTxnMarkersRequest, context: RequestContext, budget: Budget
    ) -> WriteTxnMarkersResponse:
        """Write each marker to each of its partitions; each partition has its own result."""
        budget.begin_changes()
        errors = iter(await gather_parts(self._iterate_markers(request), context, budget))
        markers = []
        for marker in request.markers:
            if not any(topic.partition_indexes for topic in marker.topics):
                continue  # as in Kafka, the response omits a marker without partitions
            topics = []
            for topic in marker.topics:
                results = [
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(errors))
                    for number in topic.partition_indexes
                ]
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
                await budget.checkpoint()
            markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=markers)

    def _iterate_markers(self, request: WriteTxnMarkersRequest) -> Iterator[SendPart]:
        for marker in request.markers:
            end = _create_transaction_end(marker)
            for topic in marker.topics:
                for number in topic.partition_indexes:
                    yield partial(self._write_marker, TopicPartition(topic.name, number), end)

    def _write_marker(
        self, partition: TopicPartition, end: TransactionEnd, defer: DeferReply
    ) -> object | DeferredResponse:
        if end.producer_id < 0 or end.producer_epoch < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's error
        if partition.topic == TRANSACTION_STATE:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._writer.write_marker(partition, end, defer(False).send)
        return AWAITING_DISK


def _create_transaction_end(marker: WritableTxnMarker) -> TransactionEnd:
    return TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
