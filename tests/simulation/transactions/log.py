"""A log on a disk that rejects writes, fails and loses power; callbacks report the outcome of an entry."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from tests.simulation.disk import AppendFailed
from tests.simulation.world import World

T = TypeVar("T")


class Log(Generic[T]):
    """Entries in order. A crash keeps all synced entries and a random prefix of the rest."""

    def __init__(self, world: World, failed: Callable[[], None]) -> None:
        """Create an empty log.

        Args:
            world: Virtual time and randomness.
            failed: Called when a sync fails, after the log lost its unsynced entries.
        """
        self.entries: list[T] = []
        self.durable = 0
        self.sync_ms = (0, 5)
        self.refuses = False
        self.fail_syncs = 0
        self._world = world
        self._failed = failed
        self._waiting: deque[tuple[int, Callable[[bool], None]]] = deque()
        self._life = 0
        self._is_syncing = False

    @property
    def end(self) -> int:
        """The number of written entries."""
        return len(self.entries)

    def append(self, entry: T) -> int:
        """Write one entry and return its position. Raises AppendFailed if the disk rejects it."""
        if self.refuses:
            raise AppendFailed
        self.entries.append(entry)
        self._sync()
        return self.end - 1

    def when_durable(self, then: Callable[[bool], None]) -> None:
        """Call `then` with True once all present entries are durable, with False if the log loses some of them."""
        if self.durable >= self.end and not self._waiting:
            then(True)
        else:
            self._waiting.append((self.end, then))

    def lose(self, *, is_crash: bool) -> None:
        """Lose a random part of the unsynced tail; the rest becomes durable. After a crash no callback runs."""
        kept = self._world.random.randint(self.durable, self.end)
        del self.entries[kept:]
        self.forget(is_crash=is_crash)

    def forget(self, *, is_crash: bool) -> None:
        """Fail all pending entries and treat the remaining entries as durable."""
        self.durable = self.end
        self._life += 1
        self._is_syncing = False
        waiting, self._waiting = self._waiting, deque()
        if not is_crash:
            for _, then in waiting:
                then(False)

    def _sync(self) -> None:
        if not self._is_syncing and self.durable < self.end:
            self._is_syncing = True
            end, life = self.end, self._life
            self._world.after(self._world.random.randint(*self.sync_ms), lambda: self._synced(end, life))

    def _synced(self, end: int, life: int) -> None:
        if life != self._life:
            return
        if self.fail_syncs:
            self.fail_syncs -= 1
            self.lose(is_crash=False)
            self._failed()
            return
        self._is_syncing = False
        self.durable = end
        while self._waiting and self._waiting[0][0] <= end and life == self._life:
            self._waiting.popleft()[1](True)
        if life == self._life:
            self._sync()
