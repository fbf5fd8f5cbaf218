"""TxnOffsetCommit: offsets that count once the transaction is committed.

Topics are resolved here, the coordinator of the transaction is asked, then the group. Source: Kafka's
`KafkaApis.handleTxnOffsetCommitRequest`, `GroupCoordinatorService.commitTransactionalOffsets`; KIP-447, KIP-890.
"""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from coordinator import clock
from coordinator.answers import HELD, Later
from coordinator.engine.place import Place
from coordinator.group.refusal import error_response
from coordinator.machine.outcome import Context
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.consents import Consents
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.in_pieces import in_pieces
from coordinator.server.handlers.merge import Combining, Merge, Part, Put
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.consent import AskConsent, Consent
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from storage.producers.producer_state import InvalidProducerEpoch, InvalidTransactionState, Verification

ABORTABLE_SINCE: Final = 4
ADDS_SINCE: Final = 5
TOPIC_IDS_SINCE: Final = 6

SAID: Final = {
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
        consents: Consents,
        run_queue: RunQueue,
        arrival: clock.Arrival,
        is_verified: bool,
    ) -> None:
        """In: the instant that the engine takes for that of the request at hand; whether the coordinator of a
        transaction is asked (`transaction.partition.verification.enable`)."""
        self._router = router
        self._catalogue = catalogue
        self._consents = consents
        self._run_queue = run_queue
        self._arrival = arrival
        self._is_verified = is_verified

    def handle(self, request: TxnOffsetCommitRequest, caller: Caller) -> object:
        """Commits what exists, all of it or nothing; a group that has nothing to commit is not consulted at all."""
        version = caller.api_version
        by_id = version >= TOPIC_IDS_SINCE
        known: list[TxnOffsetCommitRequestTopic] = []
        refused: dict[object, TxnOffsetCommitResponseTopic] = {}
        names: dict[str, bytes] = {}

        def ask() -> Iterator[Put | None]:
            for asked in request.topics:
                found: list[TxnOffsetCommitRequestTopic] = []
                for parts in in_pieces(asked.partitions):
                    piece = TxnOffsetCommitRequestTopic(
                        name=asked.name, topic_id=asked.topic_id, partitions=parts
                    )
                    self._sift(piece, by_id, found, refused)
                    yield None
                known.extend(found)
            if known:
                names.update((topic.name, topic.topic_id) for topic in known)
                request.topics = known
                yield partial(self._commit, request, self._router.context(caller))

        def combine(answers: list[TxnOffsetCommitResponse]) -> Combining:
            for answer in answers:
                for topic in answer.topics:
                    topic.topic_id = names[topic.name]
                    _add(refused, topic, by_id)
                    yield
            return TxnOffsetCommitResponse(topics=list(refused.values()))

        return Merge(combine, self._run_queue, version).answer(ask(), caller)

    def _sift(
        self,
        asked: TxnOffsetCommitRequestTopic,
        by_id: bool,
        found: list[TxnOffsetCommitRequestTopic],
        refused: dict[object, TxnOffsetCommitResponseTopic],
    ) -> None:
        """Adds what exists to the one, by name and id, and the answer for what does not to the other."""
        topic = self._catalogue.get_by_id(asked.topic_id) if by_id else self._catalogue.get(asked.name)
        count = 0 if topic is None else len(topic.partitions)
        there = [part for part in asked.partitions if 0 <= part.partition_index < count]
        if topic is not None and there and found:
            found[0].partitions += there
        elif topic is not None and there:
            found.append(
                TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=there)
            )
        if len(there) == len(asked.partitions) and topic is not None:
            return
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and by_id:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        missing = [part for part in asked.partitions if not 0 <= part.partition_index < count]
        _add(refused, _answer(asked, error, [part.partition_index for part in missing]), by_id)

    def _commit(self, request: TxnOffsetCommitRequest, context: Context, part: Part) -> Later:
        """Asks the coordinator of the transaction, where it has to be asked, then the group."""
        commit = _Commit(request, context, self._router, self._arrival, part.answer_later(parks=False))
        commit.begin(self._consents, clock.wall_ms(), is_verified=self._is_verified)
        return HELD


class _Commit:
    """One commit on its way: to the coordinator of its transaction, then to its group."""

    __slots__ = (
        "_arrival",
        "_context",
        "_machine",
        "_partition",
        "_place",
        "_request",
        "_router",
        "_verification",
        "_version",
    )

    def __init__(
        self,
        request: TxnOffsetCommitRequest,
        context: Context,
        router: GroupRouter,
        arrival: clock.Arrival,
        place: Place,
    ) -> None:
        self._request = request
        self._context = context
        self._version = context.api_version
        self._router = router
        self._arrival = arrival
        self._partition = router.runtime.partition_of(request.group_id)
        self._machine = self._partition.bare
        self._place = place
        self._verification: Verification | None = None

    def begin(self, consents: Consents, now_ms: int, *, is_verified: bool) -> None:
        """Asks for consent, unless this transaction is open here already."""
        request, partition = self._request, self._partition
        adds = self._version >= ADDS_SINCE
        if not request.group_id or not self._router.serves(partition) or not (adds or is_verified):
            self._go_on(is_verified=False)
            return
        try:
            is_open = not partition.needs_verification(request.producer_id, request.producer_epoch)
        except InvalidProducerEpoch:
            self._refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        if is_open:
            self._go_on(is_verified=True)
            return
        self._verification = partition.verify(request.producer_id, request.producer_epoch, now_ms, adds=adds)
        question = AskConsent(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=[partition.name],
            adds=adds,
            is_abortable=self._version >= ABORTABLE_SINCE,
        )
        consents.ask(question, retries=False).add_done_callback(self._consented)

    def _consented(self, consent: "asyncio.Future[Consent]") -> None:
        if consent.cancelled():
            return
        error = consent.result()[self._partition.name]
        if error is ErrorCode.NONE:
            self._go_on(is_verified=True)
        elif error is ErrorCode.TRANSACTION_ABORTABLE and self._version < ABORTABLE_SINCE:
            self._refuse(ErrorCode.INVALID_TXN_STATE)
        else:
            self._refuse(SAID.get(error, error))

    def _go_on(self, *, is_verified: bool) -> None:
        """The group's turn, if the producer may still write what counts only with its transaction."""
        request, partition = self._request, self._partition
        if request.group_id and self._router.serves(partition):
            if partition.bare is not self._machine:
                # It was read again meanwhile, and does not know that consent was asked for.
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
        response = self._router.put(partition, request, self._context, self)
        if not isinstance(response, Later):
            self._place.fill(response)

    def answer_later(self, *, parks: bool) -> Place:
        """What the group answers goes where the whole answer is put together."""
        return self._place

    def _refuse(self, error: ErrorCode) -> None:
        self._place.fill(error_response(self._request, self._version, error))


def _answer(
    asked: TxnOffsetCommitRequestTopic, error: ErrorCode, numbers: Iterable[int]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=number, error_code=error) for number in numbers
        ],
    )


def _add(
    merged: dict[object, TxnOffsetCommitResponseTopic], topic: TxnOffsetCommitResponseTopic, by_id: bool
) -> None:
    """One entry for each topic, where it was first named."""
    key: object = topic.topic_id if by_id else topic.name
    if key in merged:
        merged[key].partitions += topic.partitions
    else:
        merged[key] = topic
