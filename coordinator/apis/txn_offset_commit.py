"""TxnOffsetCommit: offsets that take effect when the transaction is committed.

The handler resolves topics. Then the transaction coordinator verifies the transaction, and the group commits.

Source: Kafka's `KafkaApis.handleTxnOffsetCommitRequest`, `GroupCoordinatorService.commitTransactionalOffsets`;
KIP-447, KIP-890.
"""

from functools import partial
from typing import Final

from coordinator.apis.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from coordinator.apis.group_handlers import GroupPartition, GroupRouter
from coordinator.apis.offset_handlers import CommitTopicResolver, add_topics
from coordinator.apis.request_task import UnblockingFuture, gather_parts
from coordinator.core import clock
from coordinator.core.time_budget import Budget
from coordinator.group.group_request_rules import build_group_error_response
from coordinator.network.request_context import RequestContext
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.long_work import AddOrVerifyRequest
from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from storage.producers.producer_state import InvalidProducerEpoch, InvalidTransactionState

ABORTABLE_SINCE: Final = 4
ADDS_SINCE: Final = 5
TOPIC_IDS_SINCE: Final = 6

ERRORS_BY_COORDINATOR_ERROR: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The error for the client, by the error of the coordinator of its transaction, where they differ."""


class TxnOffsetCommitHandler:
    """Answers TxnOffsetCommit."""

    def __init__(
        self,
        router: GroupRouter,
        catalogue: Catalogue,
        add_partitions_manager: AddPartitionsToTxnManager,
        is_verified: bool,
    ) -> None:
        """Create the handler.

        Args:
            is_verified: whether the coordinator of a transaction verifies it before the group commits
                (`transaction.partition.verification.enable`).
        """
        self._router = router
        self._resolver = CommitTopicResolver(
            catalogue, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic, TOPIC_IDS_SINCE
        )
        self._add_partitions_manager = add_partitions_manager
        self._is_verified = is_verified

    async def handle(
        self, request: TxnOffsetCommitRequest, context: RequestContext, budget: Budget
    ) -> TxnOffsetCommitResponse:
        """Commit offsets of partitions that exist, all or none. Without any, the group gets no request."""
        by_id = context.api_version >= TOPIC_IDS_SINCE
        refused: dict[object, TxnOffsetCommitResponseTopic] = {}
        if context.is_large:
            known = await self._resolver.split_topics_in_steps(request.topics, by_id, refused, budget)
        else:
            known, missing = self._resolver.split_topics(request.topics, by_id)
            add_topics(refused, missing, by_id)
        partition = self._router.runtime.find_partition(request.group_id)
        error = ErrorCode.NONE
        if known and request.group_id and self._router.serves(partition):
            error = await self._verify(request, partition, context, budget)
        # No checkpoint from here to the commit: the topics must still exist there.
        request.topics = self._resolver.refuse_deleted_topics(known, refused, by_id)
        if request.topics:
            if error is ErrorCode.NONE:
                part = partial(self._router.ask_partition, partition, request, context)
                (response,) = await gather_parts([part], context, budget)
            else:
                response = build_group_error_response(request, context.api_version, error)
            ids = {topic.name: topic.topic_id for topic in request.topics}
            for topic in response.topics:
                topic.topic_id = ids[topic.name]
                add_topics(refused, [topic], by_id)
                await budget.checkpoint()
        return TxnOffsetCommitResponse(topics=list(refused.values()))

    async def _verify(
        self,
        request: TxnOffsetCommitRequest,
        partition: GroupPartition,
        context: RequestContext,
        budget: Budget,
    ) -> ErrorCode:
        """Check that the producer may commit. Unless the transaction has records in the group's partition already,
        request its verification from its coordinator.

        Returns:
            NONE if the group may commit: the caller then sends the commit without a checkpoint in between.
        """
        version = context.api_version
        adds = version >= ADDS_SINCE
        asks_coordinator = adds or self._is_verified
        verification = None
        try:
            if asks_coordinator and partition.needs_verification(request.producer_id, request.producer_epoch):
                budget.begin_changes()
                machine = partition.plain_machine
                verification = partition.verify(
                    request.producer_id, request.producer_epoch, clock.wall_ms(), adds=adds
                )
                verified = self._add_partitions_manager.request_partitions(
                    _create_verification(request, partition, version), retries=False
                )
                error = (await UnblockingFuture(verified))[partition.name]
                if error is not ErrorCode.NONE:
                    return _convert_error(error, version)
                if not self._router.serves(partition):
                    return ErrorCode.NONE  # the router refuses the commit
                if partition.plain_machine is not machine:
                    return ErrorCode.NOT_COORDINATOR  # a reload lost the verification
            partition.check_producer(
                request.producer_id, request.producer_epoch, verification, is_verified=asks_coordinator
            )
        except InvalidProducerEpoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        except InvalidTransactionState:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE


def _create_verification(
    request: TxnOffsetCommitRequest, partition: GroupPartition, version: int
) -> AddOrVerifyRequest:
    """Return the request to the coordinator of a transaction: to verify the partition of the group, or to add it
    (KIP-890)."""
    return AddOrVerifyRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        partitions=[partition.name],
        adds=version >= ADDS_SINCE,
        is_abortable=version >= ABORTABLE_SINCE,
    )


def _convert_error(error: ErrorCode, version: int) -> ErrorCode:
    """Convert the error of the transaction coordinator to the client's error."""
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return ERRORS_BY_COORDINATOR_ERROR.get(error, error)
