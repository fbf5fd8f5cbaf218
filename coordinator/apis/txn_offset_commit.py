"""TxnOffsetCommit: offsets that count once the transaction is committed.

Topics are resolved here, the coordinator of the transaction is asked, then the group. Source: Kafka's
`KafkaApis.handleTxnOffsetCommitRequest`, `GroupCoordinatorService.commitTransactionalOffsets`; KIP-447, KIP-890.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from coordinator.apis.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.scatter_gather import Combining, ScatterGather, SendPart, in_pieces
from coordinator.core import clock
from coordinator.core.outcome import Context
from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import AWAITING_DISK, DeferredResponse
from coordinator.core.time_budget import RunQueue
from coordinator.group.group_request_rules import build_group_error_response
from coordinator.network.request_context import RequestContext
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.stepwise_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from storage.producers.producer_state import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    VerificationStateEntry,
)

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
"""What a client is told where the coordinator of its transaction says something else."""


class TxnOffsetCommitHandler:
    """Answers TxnOffsetCommit."""

    def __init__(
        self,
        router: GroupRouter,
        catalogue: Catalogue,
        add_partitions_manager: AddPartitionsToTxnManager,
        run_queue: RunQueue,
        arrival: clock.Arrival,
        is_verified: bool,
    ) -> None:
        """In: the instant that the engine takes for that of the request at hand; whether the coordinator of a
        transaction is asked (`transaction.partition.verification.enable`)."""
        self._router = router
        self._catalogue = catalogue
        self._add_partitions_manager = add_partitions_manager
        self._run_queue = run_queue
        self._arrival = arrival
        self._is_verified = is_verified

    def handle(self, request: TxnOffsetCommitRequest, context: RequestContext) -> object:
        """Commits what exists, all of it or nothing; a group that has nothing to commit is not consulted at all."""
        version = context.api_version
        by_id = version >= TOPIC_IDS_SINCE
        known: list[TxnOffsetCommitRequestTopic] = []
        refused: dict[object, TxnOffsetCommitResponseTopic] = {}
        names: dict[str, bytes] = {}

        def iterate_parts() -> Iterator[SendPart | None]:
            for requested in request.topics:
                found: list[TxnOffsetCommitRequestTopic] = []
                for partitions in in_pieces(requested.partitions):
                    piece = TxnOffsetCommitRequestTopic(
                        name=requested.name, topic_id=requested.topic_id, partitions=partitions
                    )
                    self._split_known(piece, by_id, found, refused)
                    yield None
                known.extend(found)
            if known:
                names.update((topic.name, topic.topic_id) for topic in known)
                request.topics = known
                yield partial(self._commit, request, self._router.create_machine_context(context))

        def combine(answers: list[TxnOffsetCommitResponse]) -> Combining:
            for answer in answers:
                for topic in answer.topics:
                    topic.topic_id = names[topic.name]
                    _merge_topic(refused, topic, by_id)
                    yield
            return TxnOffsetCommitResponse(topics=list(refused.values()))

        return ScatterGather(combine, self._run_queue).answer_parts(iterate_parts(), context)

    def _split_known(
        self,
        requested: TxnOffsetCommitRequestTopic,
        by_id: bool,
        found: list[TxnOffsetCommitRequestTopic],
        refused: dict[object, TxnOffsetCommitResponseTopic],
    ) -> None:
        """Adds what exists to the one, by name and id, and the answer for what does not to the other."""
        topic = (
            self._catalogue.find_topic_by_id(requested.topic_id)
            if by_id
            else self._catalogue.find_topic(requested.name)
        )
        count = 0 if topic is None else len(topic.partitions)
        existing = [part for part in requested.partitions if 0 <= part.partition_index < count]
        if topic is not None and existing and found:
            found[0].partitions += existing
        elif topic is not None and existing:
            found.append(
                TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=existing)
            )
        if len(existing) == len(requested.partitions) and topic is not None:
            return
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and by_id:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        missing = [part for part in requested.partitions if not 0 <= part.partition_index < count]
        missing_topic = TxnOffsetCommitRequestTopic(
            name=requested.name, topic_id=requested.topic_id, partitions=missing
        )
        # The entry is the same in all versions: it has the name and the id.
        entry = build_error_entry(TxnOffsetCommitResponseTopic, missing_topic, TOPIC_IDS_SINCE, error)
        _merge_topic(refused, entry, by_id)

    def _commit(
        self, request: TxnOffsetCommitRequest, machine_context: Context, defer: DeferReply
    ) -> DeferredResponse:
        """Asks the coordinator of the transaction, where it has to be asked, then the group."""
        commit = _TransactionalCommit(request, machine_context, self._router, self._arrival, defer(False))
        commit.start(self._add_partitions_manager, clock.wall_ms(), is_verified=self._is_verified)
        return AWAITING_DISK


class _TransactionalCommit:
    """One commit on its way: to the coordinator of its transaction, then to its group."""

    __slots__ = (
        "_arrival",
        "_context",
        "_machine",
        "_partition",
        "_reply",
        "_request",
        "_router",
        "_verification",
        "_version",
    )

    def __init__(
        self,
        request: TxnOffsetCommitRequest,
        machine_context: Context,
        router: GroupRouter,
        arrival: clock.Arrival,
        reply: Reply,
    ) -> None:
        self._request = request
        self._context = machine_context
        self._version = machine_context.api_version
        self._router = router
        self._arrival = arrival
        self._partition = router.runtime.find_partition(request.group_id)
        self._machine = self._partition.undecorated_machine
        self._reply = reply
        self._verification: VerificationStateEntry | None = None

    def start(
        self, add_partitions_manager: AddPartitionsToTxnManager, now_ms: int, *, is_verified: bool
    ) -> None:
        """Asks the coordinator of the transaction, unless this transaction is open here already."""
        request, partition = self._request, self._partition
        adds = self._version >= ADDS_SINCE
        if not request.group_id or not self._router.serves(partition) or not (adds or is_verified):
            self._commit_to_group(is_verified=False)
            return
        try:
            is_open = not partition.needs_verification(request.producer_id, request.producer_epoch)
        except InvalidProducerEpoch:
            self._refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        if is_open:
            self._commit_to_group(is_verified=True)
            return
        self._verification = partition.verify(request.producer_id, request.producer_epoch, now_ms, adds=adds)
        verification_request = AddOrVerifyRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=[partition.name],
            adds=adds,
            is_abortable=self._version >= ABORTABLE_SINCE,
        )
        add_partitions_manager.request_partitions(verification_request, retries=False).add_done_callback(
            self._on_verified
        )

    def _on_verified(self, verified: "asyncio.Future[AddOrVerifyResult]") -> None:
        if verified.cancelled():
            return
        error = verified.result()[self._partition.name]
        if error is ErrorCode.NONE:
            self._commit_to_group(is_verified=True)
        elif error is ErrorCode.TRANSACTION_ABORTABLE and self._version < ABORTABLE_SINCE:
            self._refuse(ErrorCode.INVALID_TXN_STATE)
        else:
            self._refuse(ERRORS_BY_COORDINATOR_ERROR.get(error, error))

    def _commit_to_group(self, *, is_verified: bool) -> None:
        """The group's turn, if the producer may still write what counts only with its transaction."""
        request, partition = self._request, self._partition
        if request.group_id and self._router.serves(partition):
            if partition.undecorated_machine is not self._machine:
                # It was read again meanwhile, and does not know of the verification.
                self._refuse(ErrorCode.NOT_COORDINATOR)
                return
            try:
                partition.check_producer(
                    request.producer_id,
                    request.producer_epoch,
                    self._verification,
                    is_verified=is_verified,
                )
            except InvalidProducerEpoch:
                self._refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            except InvalidTransactionState:
                self._refuse(ErrorCode.INVALID_TXN_STATE)
                return
        self._arrival.advance(clock.monotonic_ns())
        self._reply.complete_with(
            self._router.send_request, partition, request, self._context, self._reply.reopen
        )

    def _refuse(self, error: ErrorCode) -> None:
        self._reply.send(build_group_error_response(self._request, self._version, error))


def _merge_topic(
    merged: dict[object, TxnOffsetCommitResponseTopic], topic: TxnOffsetCommitResponseTopic, by_id: bool
) -> None:
    """One entry for each topic, where it was first named."""
    key: object = topic.topic_id if by_id else topic.name
    if key in merged:
        merged[key].partitions += topic.partitions
    else:
        merged[key] = topic
