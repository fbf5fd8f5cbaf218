"""A server in this process, and what people may ask of it and do to it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from coordinator.control.control import Control
from coordinator.engine.group_clock import GroupClock
from coordinator.server.server import Server
from storage.files import Files
from tests.server.harness import serving


@asynccontextmanager
async def controlled(
    data_dir: Path | str | None = None,
    properties: Mapping[str, str] | None = None,
    files: Files | None = None,
    group_clock: GroupClock | None = None,
) -> AsyncIterator[tuple[Server, Control]]:
    """See the top of this file. Over files in memory, unless others are given."""
    async with serving(data_dir, properties, files=files, group_clock=group_clock) as server:
        control = Control(server)
        try:
            yield server, control
        finally:
            control.close()
            await control.namespaces.close()
