"""Writes states where no event loop runs."""

import asyncio
from collections.abc import Iterable

from coordinator.core.async_files import AsyncFiles
from coordinator.runtime.state_keeper import write_state
from storage.files import Files
from storage.log import PartitionLog
from storage.state_file import StatePoint, format_state_path


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
    return format_state_path(log, point.end_offset)


async def goes_on() -> bool:
    """The state is wanted still."""
    return True
