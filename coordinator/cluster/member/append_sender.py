"""Sends the transactions of `Appender`: one at a time, the same again until it is known what became of it.

An engine that is full says so at once, and sessions go on; so they do where it has found its data corrupt, or lets
this broker write no longer. Nothing else would ever end the waiting: what has waited for so long as a session lasts
is given up then, as it would be without a quorum.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from coordinator import clock
from coordinator.cluster.append import Appender, Done, Failed, Fenced, Partition
from coordinator.cluster.engine.engine import (
    Engine,
    EngineError,
    NoSpace,
    Outcome,
    TooLarge,
    Transaction,
    Unavailable,
)

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.02
_TELL_AFTER_S: Final = 5.0


class AppendDriver:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        engine: Engine,
        appender: Appender,
        done: Callable[[Hashable], None],
        lost: Callable[[Partition, Hashable, str], None],
        timeout_s: float = math.inf,
    ) -> None:
        """In: who is told of a ticket that the engine has it; and of one of which nothing is known, with why; for
        how long an engine is waited for that takes nothing."""
        self.fenced = 0
        """How often a partition was found to be another's."""
        self.seconds: deque[float] = deque(maxlen=1000)
        """How long the last transactions took."""
        self._engine = engine
        self._appender = appender
        self._done = done
        self._lost = lost
        self._timeout_s = timeout_s
        self._full_since_ns = 0
        """0 while it is not."""
        self._task: asyncio.Task[None] | None = None

    def append(
        self, partition: Partition, token: int, base: int, end: int, data: bytes, ticket: Hashable | None
    ) -> None:
        """See `Appender.append`."""
        self._appender.append(partition, token, base, end, data, ticket)
        self._wake()

    def prove(self, partition: Partition, token: int, ticket: Hashable) -> None:
        """See `Appender.prove`."""
        self._appender.prove(partition, token, ticket)
        self._wake()

    def drop(self, partition: Partition) -> None:
        """See `Appender.drop`."""
        self._appender.drop(partition)

    def abandon(self) -> None:
        """Sends nothing any more."""
        if self._task is not None:
            self._task.cancel()

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        # What the iteration at hand still submits goes with the same transaction.
        await asyncio.sleep(0)
        while (transaction := self._next()) is not None:
            started_ns = clock.monotonic_ns()
            told = False
            while True:
                answer: Outcome | EngineError
                try:
                    answer = await self._engine.transact(transaction)
                except EngineError as error:
                    answer = error
                except Exception as problem:  # noqa: BLE001 - what waits must not wait for ever for that
                    _LOG.error("An append", exc_info=problem)
                    answer = Unavailable(repr(problem))
                if isinstance(answer, Outcome):
                    self._full_since_ns = 0
                for outcome in self._appender.answered(answer):
                    self._tell(outcome)
                if not self._appender.is_in_flight or self._is_given_up(answer, started_ns):
                    break
                if not told and clock.monotonic_ns() - started_ns > _TELL_AFTER_S * 1e9:
                    told = True
                    why = "it is full" if isinstance(answer, NoSpace) else str(answer)
                    _LOG.error("etcd takes no commits: %s", why)
                await asyncio.sleep(_RETRY_S)
            self.seconds.append((clock.monotonic_ns() - started_ns) / 1e9)

    def _next(self) -> Transaction | None:
        """Return the next transaction, without the partitions for which none can be made."""
        while True:
            try:
                return self._appender.next()
            except Exception as problem:  # noqa: BLE001 - the other partitions are appended to all the same
                _LOG.error("Failed to prepare an append", exc_info=problem)
                if not self._appender.is_in_flight:
                    return None
                for outcome in self._appender.give_up(Unavailable(repr(problem))):
                    self._tell(outcome)

    def _is_given_up(self, answer: Outcome | EngineError, started_ns: int) -> bool:
        """Whether what is in flight is waited for no longer. Where the engine has been full for as long, nothing is
        waited for."""
        assert isinstance(answer, EngineError), answer
        now_ns = clock.monotonic_ns()
        since_ns = started_ns
        if isinstance(answer, NoSpace):
            since_ns = self._full_since_ns = self._full_since_ns or now_ns
        if now_ns - since_ns < self._timeout_s * 1e9:
            return False
        for outcome in self._appender.give_up(answer):
            self._tell(outcome)
        return True

    def _tell(self, outcome: Done | Fenced | Failed) -> None:
        try:
            self._report(outcome)
        except Exception as problem:  # noqa: BLE001 - the tickets of the other partitions are done all the same
            _LOG.error("Failed to handle an append to %s-%d", *outcome.partition, exc_info=problem)

    def _report(self, outcome: Done | Fenced | Failed) -> None:
        if isinstance(outcome, Done):
            for ticket in outcome.tickets:
                self._done(ticket)
            return
        if isinstance(outcome, Fenced):
            self.fenced += 1
            reason = "another broker owns it"
        else:
            kind = "too large" if isinstance(outcome.problem, TooLarge) else "not taken"
            reason = f"what was appended is {kind}: {outcome.problem}"
        self._appender.drop(outcome.partition)
        for ticket in outcome.tickets[:1]:  # it is given up with the first
            self._lost(outcome.partition, ticket, reason)
