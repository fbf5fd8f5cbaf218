"""Looks after etcd now and then: nodes that do not answer, a database that grows too large, one that is full.

What is wrong is a line when it begins; and what it was when it is over.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from coordinator.cluster.engine.node_status import NodeStatus

_LOG: Final = logging.getLogger("Cluster")
PERIOD_S: Final = 10.0
DEFAULT_QUOTA_BYTES: Final = 2 << 30
"""etcd's own, where nothing else was said to it."""
_NEARLY_FULL: Final = 0.7
_ROOMY: Final = 0.65
"""Below which a database is not nearly full any more, so that one at the bound is told once."""


class Asked(Protocol):
    """Who knows how the nodes are."""

    async def nodes(self) -> Sequence[NodeStatus]:
        """All of them. Raises nothing."""


class EngineHealth:
    """All methods belong to the event loop's thread."""

    def __init__(self, engine: Asked, quota_bytes: int) -> None:
        """In: how large the database may grow, 0 where nobody says so."""
        self.nodes: Sequence[NodeStatus] = ()
        """As they were when last looked at."""
        self._engine = engine
        self._quota_bytes = quota_bytes
        self._silent: set[str] = set()
        self._is_full = self._is_nearly_full = False
        self._task: asyncio.Task[None] | None = None

    @property
    def quota_bytes(self) -> int:
        """How large the database may grow: as configured, as etcd says, or as it is by default."""
        said = min((node.quota_bytes for node in self.nodes if node.quota_bytes), default=0)
        return self._quota_bytes or said or DEFAULT_QUOTA_BYTES

    @property
    def size_bytes(self) -> int:
        """Of the largest database of a node."""
        return max((node.size_bytes for node in self.nodes), default=0)

    @property
    def is_full(self) -> bool:
        """Whether a node has told the others that it is full: none takes writes then."""
        return any(node.is_full for node in self.nodes)

    def start(self) -> None:
        """Begins to look."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Looks no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as problem:  # noqa: BLE001 - the next look may do better
                _LOG.error("Looking after etcd", exc_info=problem)
            await asyncio.sleep(PERIOD_S)

    async def look(self) -> None:
        """Asks each node, and tells what is new."""
        self.nodes = await self._engine.nodes()
        self._tell_silent()
        self._tell_size()

    def _tell_silent(self) -> None:
        for node in self.nodes:
            if node.problem and node.endpoint not in self._silent:
                self._silent.add(node.endpoint)
                _LOG.warning("etcd at %s does not answer: %s", node.endpoint, node.problem)
            elif not node.problem and node.endpoint in self._silent:
                self._silent.remove(node.endpoint)
                _LOG.info("etcd at %s answers again", node.endpoint)

    def _tell_size(self) -> None:
        if not self.size_bytes:
            return
        was_full, self._is_full = self._is_full, self.is_full
        if self._is_full and not was_full:
            _LOG.error(
                "etcd is full (alarm NOSPACE, %d bytes): it takes no commits until it is compacted and "
                "defragmented, and the alarm is disarmed",
                self.size_bytes,
            )
        elif was_full and not self._is_full:
            _LOG.info("etcd takes writes again")
        share = self.size_bytes / self.quota_bytes
        if share >= _NEARLY_FULL and not self._is_nearly_full:
            self._is_nearly_full = True
            _LOG.warning(
                "The database of etcd has %d bytes of the %d that it may have: it forgets old revisions with "
                "--auto-compaction-retention, and gives back room when it is defragmented",
                self.size_bytes,
                self.quota_bytes,
            )
        elif share < _ROOMY:
            self._is_nearly_full = False
