"""Sends the transactions of `PartitionAppender`, one at a time, and repeats each until its result is known.

A full store rejects writes at once while sessions continue, and so does a store with corrupt data or without
write permission for this broker. Without a limit, appends would wait for ever. After the length of a session
they fail, as they would without a quorum.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from coordinator.cluster.key_value_store import (
    KeyValueStore,
    KeyValueStoreError,
    StoreFull,
    StoreRequestTooLarge,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from coordinator.cluster.partition_appends import (
    AppendDone,
    AppendFenced,
    AppendRejected,
    PartitionAppender,
    PartitionId,
)
from coordinator.core import clock

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.02
_LOG_AFTER_S: Final = 5.0


class AppendSender:
    """Sends the appends of a daemon to the store, one transaction at a time. All methods belong to the event loop's
    thread.
    """

    def __init__(
        self,
        store: KeyValueStore,
        appender: PartitionAppender,
        on_done: Callable[[Hashable], None],
        on_lost: Callable[[PartitionId, Hashable, str], None],
        timeout_s: float = math.inf,
    ) -> None:
        """Create a sender.

        Args:
            store: Store of the cluster.
            appender: The pending appends.
            on_done: Takes a ticket after the success of its append or proof.
            on_lost: Takes a partition, a ticket with an unknown result, and the reason.
            timeout_s: Time after which a store that accepts no writes counts as failed.
        """
        self.fenced = 0
        """Number of appends to a partition that another daemon owned."""
        self.seconds: deque[float] = deque(maxlen=1000)
        """Durations of the last transactions."""
        self._store = store
        self._appender = appender
        self._on_done = on_done
        self._on_lost = on_lost
        self._timeout_s = timeout_s
        self._full_since_ns = 0
        """Time of the first StoreFull, on the monotonic clock; 0 while the store is not full."""
        self._task: asyncio.Task[None] | None = None

    def append(
        self, partition: PartitionId, token: int, base: int, end: int, data: bytes, ticket: Hashable | None
    ) -> None:
        self._appender.append(partition, token, base, end, data, ticket)
        self._wake()

    def prove_token(self, partition: PartitionId, token: int, ticket: Hashable) -> None:
        self._appender.prove_token(partition, token, ticket)
        self._wake()

    def drop_partition(self, partition: PartitionId) -> None:
        self._appender.drop_partition(partition)

    def abandon(self) -> None:
        """Stop sending. Pending tickets get no result."""
        if self._task is not None:
            self._task.cancel()

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        # Later submissions of this iteration join the same transaction.
        await asyncio.sleep(0)
        while (transaction := self._next_transaction()) is not None:
            started_ns = clock.monotonic_ns()
            is_logged = False
            while True:
                answer: TransactionResult | KeyValueStoreError
                try:
                    answer = await self._store.transact(transaction)
                except KeyValueStoreError as error:
                    answer = error
                except Exception as problem:  # noqa: BLE001 - waiting appends must not block for ever
                    _LOG.error("An append", exc_info=problem)
                    answer = StoreUnavailable(repr(problem))
                if isinstance(answer, TransactionResult):
                    self._full_since_ns = 0
                for outcome in self._appender.apply_answer(answer):
                    self._report_safely(outcome)
                if not self._appender.is_in_flight or self._abandon_if_overdue(answer, started_ns):
                    break
                if not is_logged and clock.monotonic_ns() - started_ns > _LOG_AFTER_S * 1e9:
                    is_logged = True
                    reason = "it is full" if isinstance(answer, StoreFull) else str(answer)
                    _LOG.error("etcd rejects commits: %s", reason)
                await asyncio.sleep(_RETRY_S)
            self.seconds.append((clock.monotonic_ns() - started_ns) / 1e9)

    def _next_transaction(self) -> StoreTransaction | None:
        """Return the next transaction, without the partitions that raise an error; None if nothing is pending."""
        while True:
            try:
                return self._appender.next_transaction()
            except Exception as problem:  # noqa: BLE001 - the other partitions are still appended to
                _LOG.error("Failed to prepare an append", exc_info=problem)
                if not self._appender.is_in_flight:
                    return None
                for outcome in self._appender.abandon_in_flight(StoreUnavailable(repr(problem))):
                    self._report_safely(outcome)

    def _abandon_if_overdue(self, answer: TransactionResult | KeyValueStoreError, started_ns: int) -> bool:
        """Abandon the transaction in flight after the timeout, and return whether that happened. A store that
        has been full for that long fails every transaction at once.
        """
        assert isinstance(answer, KeyValueStoreError), answer
        now_ns = clock.monotonic_ns()
        since_ns = started_ns
        if isinstance(answer, StoreFull):
            since_ns = self._full_since_ns = self._full_since_ns or now_ns
        if now_ns - since_ns < self._timeout_s * 1e9:
            return False
        for outcome in self._appender.abandon_in_flight(answer):
            self._report_safely(outcome)
        return True

    def _report_safely(self, outcome: AppendDone | AppendFenced | AppendRejected) -> None:
        try:
            self._report(outcome)
        except Exception as problem:  # noqa: BLE001 - the tickets of other partitions still get their results
            _LOG.error("Failed to handle an append to %s-%d", *outcome.partition, exc_info=problem)

    def _report(self, outcome: AppendDone | AppendFenced | AppendRejected) -> None:
        if isinstance(outcome, AppendDone):
            for ticket in outcome.tickets:
                self._on_done(ticket)
            return
        if isinstance(outcome, AppendFenced):
            self.fenced += 1
            reason = "another broker owns it"
        else:
            kind = "too large" if isinstance(outcome.problem, StoreRequestTooLarge) else "rejected"
            reason = f"the append is {kind}: {outcome.problem}"
        self._appender.drop_partition(outcome.partition)
        for ticket in outcome.tickets[:1]:  # the first ticket releases the partition
            self._on_lost(outcome.partition, ticket, reason)
