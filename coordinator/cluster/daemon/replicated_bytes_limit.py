"""How many bytes the engine has of the records of topics, and whether it may have more: a bound that all brokers
share.

Each of them says now and then, under a key of its session, how much the partitions have that it leads. What it has
written since it adds itself; what the others have is as old as what they last said. So the bound may be passed by
what is written in these few seconds.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from coordinator.cluster.engine.engine import Changes, Engine, EngineError, Entry, Put, Transaction
from coordinator.cluster.key_values import parse_number
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.key_reader import KeyReader
from coordinator.cluster.member.session_keeper import SessionKeeper
from coordinator.cluster.member.watching import keep
from storage.errors import StorageError
from storage.os_error import reason_of

_LOG: Final = logging.getLogger("Cluster")
PERIOD_S: Final = 2.0


class TopicBytes:
    """All methods belong to the event loop's thread."""

    def __init__(self, engine: Engine, keys: Keys, node_id: int, most_bytes: int) -> None:
        self._engine = engine
        self._keys = keys
        self._node_id = node_id
        self._most_bytes = most_bytes
        self._own = 0
        self._own_key = keys.topic_bytes(node_id)
        self._others: dict[bytes, int] = {}
        """By the key of each other broker."""
        self._reader = KeyReader()
        self._said: tuple[int, int] = 0, 0
        """In which session, and what."""
        self._is_full = False
        self._is_late = False
        """Whether it was told that the others are not told."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def total(self) -> int:
        """Of all topics, as far as is known."""
        return self._own + sum(self._others.values())

    def take_room(self, size_bytes: int) -> bool:
        """Counts so many bytes more, if the engine may have them; whether it may."""
        if self.total + size_bytes > self._most_bytes:
            if not self._is_full:
                self._is_full = True
                _LOG.error(
                    "The topics with replicas have %d bytes, and no more records are taken beyond %d "
                    "(cluster.topics.max.bytes)",
                    self.total,
                    self._most_bytes,
                )
            return False
        self._own += size_bytes
        return True

    def start(self, keeper: SessionKeeper, own: Callable[[], int]) -> None:
        """Begins to tell, and to hear. In: how many bytes those have that are led here."""
        loop = asyncio.get_running_loop()
        begin, end = self._keys.all_of("bytes")
        self._tasks.append(loop.create_task(keep(self._engine, begin, end, self._read, self._changed)))
        self._tasks.append(loop.create_task(self._run(keeper, own)))

    def stop(self) -> None:
        """Tells and hears nothing any more."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, keeper: SessionKeeper, own: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                self._own = own()
            except (StorageError, OSError) as error:
                _LOG.warning("How many bytes topics have is not known now: %s", reason_of(error))
                continue
            if self._is_full and self.total <= self._most_bytes * 0.9:
                self._is_full = False
                _LOG.info("The topics with replicas have %d bytes, and take records again", self.total)
            session = keeper.session
            if session.lease and self._said != (session.lease, self._own):
                await self._say(session.lease)

    async def _say(self, lease: int) -> None:
        put = Put(self._keys.topic_bytes(self._node_id), b"%d" % self._own, lease)
        own = self._own
        try:
            await self._engine.transact(Transaction((), (put,)))
            self._said, self._is_late = (lease, own), False
        except EngineError as error:
            if not self._is_late:
                _LOG.info("How many bytes topics have is told later: %s", error)
            self._is_late = True

    def _read(self, entries: Sequence[Entry]) -> None:
        self._others = {}
        self._put(entries)

    def _changed(self, changes: Changes) -> None:
        for key in changes.deleted:
            self._reader.forget(key)
            self._others.pop(key, None)
        self._put(changes.written)

    def _put(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.key != self._own_key:
                found = self._reader.read(entry, lambda entry: parse_number(entry.value))
                self._others[entry.key] = 0 if found is None else found
