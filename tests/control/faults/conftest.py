"""A server with everything that may be asked of it, and faults written as JSON."""

from collections.abc import AsyncIterator

import pytest

from coordinator.control.control import Control
from coordinator.server.server import Server
from tests.control.faults.lab import Lab
from tests.server.harness import settings, start

ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = await start(settings(None, ONE_PARTITION, topics=[("orders", 3)]))
    yield server
    await server.close()


@pytest.fixture
async def lab(server: Server) -> AsyncIterator[Lab]:
    control = Control(server)
    yield Lab(server, control)
    control.close()
