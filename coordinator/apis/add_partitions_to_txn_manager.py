"""Questions to the coordinators of transactions, asked for whoever is about to write: does this transaction have
these partitions, or will it take them?

Source: Kafka's `AddPartitionsToTxnManager`, `ReplicaManager.maybeSendPartitionsToTransactionCoordinator` (KIP-890).
"""

import asyncio
from functools import partial
from typing import Final

from coordinator import clock
from coordinator.answers import Later
from coordinator.engine.place import Taker
from coordinator.machine.outcome import Context
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.topics.consent import AskConsent, Consent
from coordinator.transactions.requests import AddPartitions, PartitionsAdded
from protocol.errors import ErrorCode

_LEVEL: Final = 2
"""Of what brokers ask each other for."""


class Consents:
    """Asks, and where the transaction before is not ended everywhere yet, asks again: when it is, and every now and
    then meanwhile."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        router: TransactionRouter,
        arrival: clock.Arrival,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
    ) -> None:
        """In: the instant that the engine takes for that of the request at hand; `add.partitions.to.txn.retry…`."""
        self._loop = loop
        self._router = router
        self._arrival = arrival
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._waiting: dict[str, list[_Asked]] = {}
        """What is asked again in a moment, by transactional id."""

    def ask(self, question: AskConsent, *, retries: bool = True) -> "asyncio.Future[Consent]":
        """What the coordinator says to each partition. In: whether CONCURRENT_TRANSACTIONS is asked again for a
        moment, which a producer wants, and a group does not."""
        give_up_ms = clock.monotonic_ms()
        if retries and question.adds:
            give_up_ms += self._retry_backoff_max_ms
        asked = _Asked(question, self._loop.create_future(), give_up_ms)
        self._put(asked)
        return asked.answer

    def ended(self, transactional_id: str) -> None:
        """A transaction has ended everywhere: whoever waits for that need not wait any longer."""
        for asked in self._waiting.pop(transactional_id, ()):
            assert asked.timer is not None, transactional_id
            asked.timer.cancel()
            self._put(asked)

    def _put(self, asked: "_Asked") -> None:
        if asked.answer.done():
            return
        question = asked.question
        added = AddPartitions(
            transactional_id=question.transactional_id,
            producer_id=question.producer_id,
            producer_epoch=question.producer_epoch,
            partitions=[(name, number) for name, number in question.partitions],
            verify_only=not question.adds,
            transaction_version=_LEVEL,
        )
        take = partial(self._answered, asked)
        self._arrival.advance(clock.monotonic_ns())
        context = Context(self._router.runtime.next_waiter(), 0, "", "")
        response = self._router.ask(question.transactional_id, added, context, Taker(take))
        if not isinstance(response, Later):
            take(response)

    def _answered(self, asked: "_Asked", response: object) -> None:
        assert isinstance(response, PartitionsAdded)
        if asked.answer.done():
            return
        errors = response.errors
        retry_ms = clock.monotonic_ms() + self._retry_backoff_ms
        if retry_ms <= asked.give_up_ms and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values():
            asked.timer = self._loop.call_later(self._retry_backoff_ms / 1000, self._put_again, asked)
            self._waiting.setdefault(asked.question.transactional_id, []).append(asked)
            return
        asked.answer.set_result(
            {
                partition: errors[partition.topic, partition.partition]
                for partition in asked.question.partitions
            }
        )

    def _put_again(self, asked: "_Asked") -> None:
        waiting = self._waiting[asked.question.transactional_id]
        waiting.remove(asked)
        if not waiting:
            del self._waiting[asked.question.transactional_id]
        self._put(asked)


class _Asked:
    """A question, for as long as it has no answer."""

    __slots__ = ("answer", "give_up_ms", "question", "timer")

    def __init__(self, question: AskConsent, answer: "asyncio.Future[Consent]", give_up_ms: int) -> None:
        self.question = question
        self.answer = answer
        self.give_up_ms = give_up_ms
        self.timer: asyncio.TimerHandle | None = None
        """Until it is asked again."""
