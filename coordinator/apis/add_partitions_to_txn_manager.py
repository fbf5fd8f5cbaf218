"""Requests to transaction coordinators before a producer or a group writes: verify that the transaction has the
partitions, or add them.

Source: Kafka's `AddPartitionsToTxnManager`, `ReplicaManager.maybeSendPartitionsToTransactionCoordinator` (KIP-890).
"""

import asyncio
from functools import partial
from typing import Final

from coordinator.apis.transaction_router import TransactionRouter
from coordinator.core import clock
from coordinator.core.outcome import Context
from coordinator.core.reply import InternalReply
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from coordinator.transactions.transaction_requests import AddPartitions, AddPartitionsResult
from protocol.error_codes import ErrorCode

_BROKER_LEVEL: Final = 2
"""The `transaction.version` of requests between brokers."""


class AddPartitionsToTxnManager:
    """Sends the requests. It retries an addition while the previous transaction still lacks markers
    (CONCURRENT_TRANSACTIONS): when that transaction has ended, and periodically until then.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        router: TransactionRouter,
        arrival: clock.Arrival,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
    ) -> None:
        """Create the manager.

        Args:
            arrival: the arrival time that the engine uses for the current request.
            retry_backoff_ms: from `add.partitions.to.txn.retry.backoff.ms`.
            retry_backoff_max_ms: from `add.partitions.to.txn.retry.backoff.max.ms`.
        """
        self._loop = loop
        self._router = router
        self._arrival = arrival
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._retries: dict[str, list[_PendingRequest]] = {}
        """Requests that wait for their retry, by transactional id."""

    def request_partitions(
        self, question: AddOrVerifyRequest, *, retries: bool = True
    ) -> "asyncio.Future[AddOrVerifyResult]":
        """Request the coordinator's result for each partition. With `retries` an addition that gets
        CONCURRENT_TRANSACTIONS is retried for at most `retry_backoff_max_ms`. Producers use it, groups do not.
        """
        give_up_ms = clock.monotonic_ms()
        if retries and question.adds:
            give_up_ms += self._retry_backoff_max_ms
        pending = _PendingRequest(question, self._loop.create_future(), give_up_ms)
        self._send_request(pending)
        return pending.answer

    def on_transaction_ended(self, transactional_id: str) -> None:
        """Retry the requests that wait for the end of this transaction."""
        for pending in self._retries.pop(transactional_id, ()):
            assert pending.timer is not None, transactional_id
            pending.timer.cancel()
            self._send_request(pending)

    def _send_request(self, pending: "_PendingRequest") -> None:
        if pending.answer.done():
            return
        question = pending.question
        added = AddPartitions(
            transactional_id=question.transactional_id,
            producer_id=question.producer_id,
            producer_epoch=question.producer_epoch,
            partitions=[(name, number) for name, number in question.partitions],
            verify_only=not question.adds,
            transaction_version=_BROKER_LEVEL,
        )
        self._arrival.advance(clock.monotonic_ns())
        context = Context(self._router.runtime.next_waiter(), 0, "", "")
        reply = InternalReply(partial(self._on_answer, pending))
        reply.complete_with(
            self._router.ask_coordinator, question.transactional_id, added, context, reply.reopen
        )

    def _on_answer(self, pending: "_PendingRequest", response: object) -> None:
        assert isinstance(response, AddPartitionsResult)
        if pending.answer.done():
            return
        errors = response.errors
        retry_ms = clock.monotonic_ms() + self._retry_backoff_ms
        if retry_ms <= pending.give_up_ms and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values():
            pending.timer = self._loop.call_later(self._retry_backoff_ms / 1000, self._retry_request, pending)
            self._retries.setdefault(pending.question.transactional_id, []).append(pending)
            return
        pending.answer.set_result(
            {
                partition: errors[partition.topic, partition.partition]
                for partition in pending.question.partitions
            }
        )

    def _retry_request(self, pending: "_PendingRequest") -> None:
        waiting = self._retries[pending.question.transactional_id]
        waiting.remove(pending)
        if not waiting:
            del self._retries[pending.question.transactional_id]
        self._send_request(pending)


class _PendingRequest:
    """A request that waits for its result. No retry begins after `give_up_ms` (monotonic)."""

    __slots__ = ("answer", "give_up_ms", "question", "timer")

    def __init__(
        self, question: AddOrVerifyRequest, answer: "asyncio.Future[AddOrVerifyResult]", give_up_ms: int
    ) -> None:
        self.question = question
        self.answer = answer
        self.give_up_ms = give_up_ms
        self.timer: asyncio.TimerHandle | None = None
        """The timer of the next retry."""
