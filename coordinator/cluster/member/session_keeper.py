"""Keeps the session of a daemon: runs `Session` against the engine, by a clock that counts suspended time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from coordinator import clock
from coordinator.cluster.engine.engine import Engine, EngineError, Transaction, Unavailable
from coordinator.cluster.session import (
    Answer,
    ClusterGone,
    Command,
    Duplicate,
    Event,
    Grant,
    KeepAlive,
    Revoke,
    Session,
    State,
)

_LOG: Final = logging.getLogger("Cluster")
_MOST_IDLE_S: Final = 0.5


class SessionKeeper:
    """All methods belong to the event loop's thread."""

    def __init__(self, engine: Engine, session: Session, tell: Callable[[Event], None]) -> None:
        """In: who is told that the session began and ended."""
        self.session = session
        self._engine = engine
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._wakes = asyncio.Event()
        self._was_duplicate = self._was_gone = False
        self._failure = ""

    def start(self) -> None:
        """Begins the session."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def look(self) -> bool:
        """Whether the daemon may believe that it owns what it owned; ends the session where its time is over. To be
        called before anything is answered that the token does not guard."""
        now_ms = clock.boot_ms()
        self._tell_all(self.session.passed(now_ms))
        return self.session.is_live(now_ms)

    @property
    def left_ms(self) -> int:
        """Until the session's deadline."""
        if self.session.state is not State.LIVE:
            return 0
        return max(0, self.session.deadline_ms - clock.boot_ms())

    async def close(self, timeout_s: float) -> None:
        """Ends the session for good; waits so long until the engine has heard of it."""
        self._tell_all(self.session.close(clock.boot_ms()))
        self._wakes.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_s)
        self.abandon()

    def abandon(self) -> None:
        """Stops at once; the session ends by itself."""
        for task in (self._task, self._asking):
            if task is not None:
                task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.session.state is not State.CLOSED:
            now_ms = clock.boot_ms()
            self._tell_all(self.session.passed(now_ms))
            command = self.session.next(now_ms)
            if command is not None:
                self._asking = loop.create_task(self._ask(command))
            self._wakes.clear()
            try:
                async with asyncio.timeout(self._idle_s(now_ms)):
                    await self._wakes.wait()
            except TimeoutError:
                continue

    def _idle_s(self, now_ms: int) -> float:
        session = self.session
        until = [_MOST_IDLE_S * 1000]
        if session.state in (State.LIVE, State.REGISTERING):
            until.append(session.deadline_ms - now_ms)
        if self._asking is None or self._asking.done():
            until.append(session.next_at_ms - now_ms)
        return max(0.0, min(until) / 1000)

    async def _ask(self, command: Command) -> None:
        answer: Answer
        try:
            answer = await self._answer(command)
            self._failure = ""
        except EngineError as error:
            answer = error
            self._tell_failure(error)
        except Exception as problem:  # noqa: BLE001 - the session goes on, or ends at its deadline
            _LOG.error("The session with etcd", exc_info=problem)
            answer = Unavailable(repr(problem))
        self._tell_all(self.session.answered(command, answer, clock.boot_ms()))
        self._asking = None
        self._wakes.set()

    async def _answer(self, command: Command) -> Answer:
        if isinstance(command, Grant):
            return await self._engine.grant(-(-command.ttl_ms // 1000))
        if isinstance(command, KeepAlive):
            await self._engine.keep_alive(command.lease)
            return None
        if isinstance(command, Revoke):
            await self._engine.revoke(command.lease)
            return None
        if isinstance(command, Transaction):
            return await self._engine.transact(command)
        return await self._engine.read(command)

    def _tell_failure(self, error: EngineError) -> None:
        """Once for each kind of trouble."""
        text = type(error).__name__
        if text != self._failure:
            self._failure = text
            _LOG.warning("etcd does not do what the session of this broker needs: %s", error)

    def _tell_all(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Duplicate):
                if not self._was_duplicate:
                    _LOG.warning(
                        "The session of this node.id that was there before goes on; waiting until it ends"
                    )
                self._was_duplicate = True
                continue
            if isinstance(event, ClusterGone):
                if not self._was_gone:
                    _LOG.error(
                        "etcd does not have any more what the cluster was made with: this broker owns "
                        "nothing, and keeps what is on its disk. Stop all brokers, and import their directories"
                    )
                self._was_gone = True
                continue
            self._was_duplicate = self._was_gone = False
            try:
                self._tell(event)
            except Exception as problem:  # noqa: BLE001 - without the keeper the session would end
                _LOG.error(
                    "Failed to handle %s of the session with etcd", type(event).__name__, exc_info=problem
                )
