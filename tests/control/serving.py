"""A server in this process, with the queries and commands of its control API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from coordinator.broker.server import Server
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.runtime.timers import GroupClock
from storage.files import Files
from tests.broker.harness import serving


@asynccontextmanager
async def controlled(
    data_dir: Path | str | None = None,
    properties: Mapping[str, str] | None = None,
    files: Files | None = None,
    group_clock: GroupClock | None = None,
) -> AsyncIterator[tuple[Server, DaemonControlPlane]]:
    """Over files in memory, unless others are given."""
    async with serving(data_dir, properties, files=files, group_clock=group_clock) as server:
        control = DaemonControlPlane(server)
        try:
            yield server, control
        finally:
            control.close()
            await control.namespaces.close()
