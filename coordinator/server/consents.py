"""Questions to the coordinators of transactions, asked for whoever is about to write: does this transaction have
these partitions, or will it take them?

Source: Kafka's `AddPartitionsToTxnManager`, `ReplicaManager.maybeSendPartitionsToTransactionCoordinator` (KIP-890).
"""

import asyncio
from typing import Final

from coordinator import clock
from coordinator.answers import Later
from coordinator.machine.outcome import Context
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.topics.consent import AskConsent, Consent
from coordinator.transactions.requests import AddPartitions, PartitionsAdded
from protocol.errors import ErrorCode

_LEVEL: Final = 2
"""Of what brokers ask each other for."""


class Consents:
    """Asks, and where the transaction before is not ended everywhere yet, asks again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        router: TransactionRouter,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
    ) -> None:
        self._loop = loop
        self._router = router
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms

    def ask(self, question: AskConsent, *, retries: bool = True) -> "asyncio.Future[Consent]":
        """What the coordinator says to each partition. In: whether CONCURRENT_TRANSACTIONS is asked again for a
        moment, which a producer wants, and a group does not."""
        answer: asyncio.Future[Consent] = self._loop.create_future()
        give_up_ms = clock.monotonic_ms()
        if retries and question.adds:
            give_up_ms += self._retry_backoff_max_ms
        self._ask(question, answer, give_up_ms)
        return answer

    def _ask(self, question: AskConsent, answer: "asyncio.Future[Consent]", give_up_ms: int) -> None:
        if answer.done():
            return
        added = AddPartitions(
            transactional_id=question.transactional_id,
            producer_id=question.producer_id,
            producer_epoch=question.producer_epoch,
            partitions=[(name, number) for name, number in question.partitions],
            verify_only=not question.adds,
            transaction_version=_LEVEL,
        )
        asking = _Asking(self, question, answer, give_up_ms)
        context = Context(self._router.runtime.next_waiter(), 0, "", "")
        response = self._router.ask(question.transactional_id, added, context, asking)
        if not isinstance(response, Later):
            asking.fill(response)

    def answered(
        self,
        question: AskConsent,
        answer: "asyncio.Future[Consent]",
        give_up_ms: int,
        response: PartitionsAdded,
    ) -> None:
        """The coordinator has said something."""
        if answer.done():
            return
        errors = response.errors
        retry_ms = clock.monotonic_ms() + self._retry_backoff_ms
        if retry_ms <= give_up_ms and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values():
            self._loop.call_later(
                self._retry_backoff_ms / 1000, self._ask, question, answer, give_up_ms
            )
            return
        answer.set_result({partition: errors[tuple(partition)] for partition in question.partitions})


class _Asking:
    """Where the answer goes that comes later."""

    __slots__ = ("_answer", "_consents", "_give_up_ms", "_question", "registry", "request", "waiter")

    api_version = 0

    def __init__(
        self,
        consents: Consents,
        question: AskConsent,
        answer: "asyncio.Future[Consent]",
        give_up_ms: int,
    ) -> None:
        self._consents = consents
        self._question = question
        self._answer = answer
        self._give_up_ms = give_up_ms
        self.request: object = None
        self.registry: dict[int, object] | None = None
        self.waiter = 0

    def answer_later(self, *, parks: bool) -> "_Asking":
        """Here."""
        return self

    def fill(self, response: object) -> None:
        """Takes the answer."""
        assert isinstance(response, PartitionsAdded)
        self._consents.answered(self._question, self._answer, self._give_up_ms, response)
