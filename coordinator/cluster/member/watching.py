"""Keeps a mirror of a range of keys: reads it, watches it from there on, reads it anew where the watch was lost."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from coordinator.cluster.engine.engine import Changes, Engine, EngineError, Entry, Read

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.2
_PAGE: Final = 500


async def read_all(engine: Engine, begin: bytes, end: bytes, revision: int = 0) -> tuple[list[Entry], int]:
    """All keys of a range, and the revision at which they were so: that one, or now. Raises EngineError."""
    found: list[Entry] = []
    while True:
        page = await engine.read(Read(begin, end, _PAGE, revision))
        revision = revision or page.revision
        found += page.entries
        if not page.has_more:
            return found, revision
        begin = page.entries[-1].key + b"\0"


async def keep(
    engine: Engine,
    begin: bytes,
    end: bytes,
    is_read: Callable[[Sequence[Entry]], None],
    changed: Callable[[Changes], None],
) -> None:
    """Never returns. In: who takes all keys, each time that they were read; who takes each change since."""
    is_told = False
    while True:
        try:
            entries, revision = await read_all(engine, begin, end)
            is_read(entries)
            is_told = False
            async for changes in engine.watch(begin, end, revision + 1):
                changed(changes)
        except EngineError as error:
            if not is_told:
                _LOG.warning("What the cluster has below %s is not known: %s", begin.decode(), error)
            is_told = True
        except Exception as problem:  # noqa: BLE001 - a mirror that stands still is worse
            _LOG.error("Watching %s", begin.decode(), exc_info=problem)
        await asyncio.sleep(_RETRY_S)
