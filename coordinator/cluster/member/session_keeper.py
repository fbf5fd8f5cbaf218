"""Keeps the session of a daemon: runs `ClusterSession` against the store, by a clock that counts suspended time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from coordinator.cluster.cluster_session import (
    ClusterGone,
    ClusterSession,
    DuplicateNodeId,
    GrantLease,
    RenewLease,
    RevokeLease,
    SessionAnswer,
    SessionCommand,
    SessionEvent,
    SessionState,
)
from coordinator.cluster.key_value_store import (
    KeyValueStore,
    KeyValueStoreError,
    StoreTransaction,
    StoreUnavailable,
)
from coordinator.core import clock
from coordinator.core.wire_name import get_wire_name

_LOG: Final = logging.getLogger("Cluster")
_MOST_IDLE_S: Final = 0.5


class SessionKeeper:
    """Keeps the session of a daemon alive. All methods belong to the event loop's thread."""

    def __init__(
        self, store: KeyValueStore, session: ClusterSession, on_event: Callable[[SessionEvent], None]
    ) -> None:
        """Create a keeper. `on_event` takes the begin and the end of the session."""
        self.session = session
        self._store = store
        self._on_event = on_event
        self._task: asyncio.Task[None] | None = None
        self._command_task: asyncio.Task[None] | None = None
        self._wakes = asyncio.Event()
        self._was_duplicate = self._was_gone = False
        self._failure: type[KeyValueStoreError] | None = None

    def start(self) -> None:
        """Start the session and its renewals."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def check_session(self) -> bool:
        """Return whether the daemon may rely on its ownership. End the session if its deadline has passed.

        Call this before every answer that the token does not guard.
        """
        now_ms = clock.boot_ms()
        self._dispatch_events(self.session.advance_time(now_ms))
        return self.session.is_live(now_ms)

    @property
    def left_ms(self) -> int:
        """Milliseconds until the session's deadline."""
        if self.session.state is not SessionState.LIVE:
            return 0
        return max(0, self.session.deadline_ms - clock.boot_ms())

    async def close(self, timeout_s: float) -> None:
        """End the session for good, and wait at most `timeout_s` for the store's confirmation."""
        self._dispatch_events(self.session.close(clock.boot_ms()))
        self._wakes.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_s)
        self.abandon()

    def abandon(self) -> None:
        """Stop at once. The session ends at its deadline."""
        for task in (self._task, self._command_task):
            if task is not None:
                task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.session.state is not SessionState.CLOSED:
            now_ms = clock.boot_ms()
            self._dispatch_events(self.session.advance_time(now_ms))
            command = self.session.next_command(now_ms)
            if command is not None:
                self._command_task = loop.create_task(self._run_command(command))
            self._wakes.clear()
            try:
                async with asyncio.timeout(self._idle_s(now_ms)):
                    await self._wakes.wait()
            except TimeoutError:
                continue

    def _idle_s(self, now_ms: int) -> float:
        session = self.session
        until = [_MOST_IDLE_S * 1000]
        if session.state in (SessionState.LIVE, SessionState.REGISTERING):
            until.append(session.deadline_ms - now_ms)
        if self._command_task is None or self._command_task.done():
            until.append(session.next_at_ms - now_ms)
        return max(0.0, min(until) / 1000)

    async def _run_command(self, command: SessionCommand) -> None:
        answer: SessionAnswer
        try:
            answer = await self._send_command(command)
            self._failure = None
        except KeyValueStoreError as error:
            answer = error
            self._log_failure(error)
        except Exception as problem:  # noqa: BLE001 - the session continues, or ends at its deadline
            _LOG.error("The session with etcd failed", exc_info=problem)
            answer = StoreUnavailable(repr(problem))
        self._dispatch_events(self.session.apply_answer(command, answer, clock.boot_ms()))
        self._command_task = None
        self._wakes.set()

    async def _send_command(self, command: SessionCommand) -> SessionAnswer:
        if isinstance(command, GrantLease):
            return await self._store.grant_lease(-(-command.ttl_ms // 1000))
        if isinstance(command, RenewLease):
            await self._store.renew_lease(command.lease)
            return None
        if isinstance(command, RevokeLease):
            await self._store.revoke_lease(command.lease)
            return None
        if isinstance(command, StoreTransaction):
            return await self._store.transact(command)
        return await self._store.read(command)

    def _log_failure(self, error: KeyValueStoreError) -> None:
        """Log a failure, once until its kind changes."""
        if type(error) is not self._failure:
            self._failure = type(error)
            _LOG.warning("etcd rejects a request of this broker's session: %s", error)

    def _dispatch_events(self, events: list[SessionEvent]) -> None:
        for event in events:
            if isinstance(event, DuplicateNodeId):
                if not self._was_duplicate:
                    _LOG.warning("Another session of this node.id is active; waiting until it ends")
                self._was_duplicate = True
                continue
            if isinstance(event, ClusterGone):
                if not self._was_gone:
                    _LOG.error(
                        "etcd no longer has the identity of the cluster: this broker owns no partitions, "
                        "and keeps the data on its disk. Stop all brokers, and import their directories"
                    )
                self._was_gone = True
                continue
            self._was_duplicate = self._was_gone = False
            try:
                self._on_event(event)
            except Exception as problem:  # noqa: BLE001 - without the keeper the session would end
                _LOG.error(
                    "Failed to handle %s of the session with etcd",
                    get_wire_name(type(event)),
                    exc_info=problem,
                )
