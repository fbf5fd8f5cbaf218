"""Getting through to the engine of a cluster for the first time: one that does not answer, lets nobody in or is too
old is named."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from coordinator.cluster.engine.engine import Denied, Engine, EngineError
from coordinator.cluster.engine.node_status import NodeStatus
from coordinator.server.start_failed import StartFailed

_LOG: Final = logging.getLogger("Cluster")

TIMEOUT_S: Final = 15.0
_RETRY_S: Final = 0.2
_OLDEST: Final = (3, 4)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")

T = TypeVar("T")


class Nodes(Engine, Protocol):
    """An engine that says what it is."""

    endpoints: tuple[str, ...]

    async def version(self) -> str:
        """The release of the node that is asked. Raises EngineError."""

    async def nodes(self) -> list[NodeStatus]:
        """How each node is. Raises nothing."""

    async def lease_left_s(self, lease: int) -> int:
        """Until a lease ends, if nobody renews it. Raises EngineError."""


async def reached(engine: Nodes, ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` gives, which is asked again and again for a while. Raises StartFailed."""
    endpoints = ", ".join(engine.endpoints)
    problem: EngineError | None = None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    _check_version(await engine.version())
                    return await ask()
                except Denied as error:
                    raise StartFailed(
                        f"cluster.etcd.username: etcd ({endpoints}) does not let this broker in: {error}"
                    ) from error
                except EngineError as error:
                    if problem is None:
                        _LOG.warning("Waiting for etcd (%s): %s", endpoints, error)
                    problem = error
                    await asyncio.sleep(_RETRY_S)
    except TimeoutError:
        raise StartFailed(
            f"cluster.etcd.endpoints: no answer from etcd ({endpoints}) in {TIMEOUT_S:.0f} s: {problem}"
        ) from problem


def _check_version(version: str) -> None:
    found = _VERSION.match(version)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        raise StartFailed(
            f"cluster.etcd.endpoints: etcd {version} is too old, 3.4 is the oldest that will do"
        )
