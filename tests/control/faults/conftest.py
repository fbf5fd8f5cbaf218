"""A server with the complete control plane, and faults written as JSON."""

from collections.abc import AsyncIterator

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from tests.broker.harness import settings, start
from tests.control.faults.lab import Lab

ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = await start(settings(None, ONE_PARTITION, topics=[("orders", 3)]))
    yield server
    await server.close()


@pytest.fixture
async def lab(server: Server) -> AsyncIterator[Lab]:
    control = ControlPlane(server)
    yield Lab(server, control)
    control.close()
