"""Writes states where no event loop runs."""

import asyncio
from collections.abc import Iterable

from coordinator.async_files import AsyncFiles
from coordinator.engine.state_writer import write_state
from storage.files import Files
from storage.log import PartitionLog
from storage.state_file import StatePoint, state_path


def written_state(
    files: Files,
    log: PartitionLog,
    point: StatePoint,
    contents: str,
    records_count: int,
    batches: Iterable[bytes],
) -> str:
    """Writes a state; the path."""

    async def write() -> None:
        assert await write_state(AsyncFiles(files), log, point, contents, records_count, batches, goes_on)

    asyncio.run(write())
    return state_path(log, point.end_offset)


async def goes_on() -> bool:
    """The state is wanted still."""
    return True
