"""A server with group clocks."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from tests.control.serving import controlled
from tests.runtime.held_clock import HeldClock


@pytest.fixture
def process_time() -> HeldClock:
    """The time that all other clocks are counted from: it can be moved, so that hours pass in no time."""
    return HeldClock()


@pytest.fixture
async def served(process_time: HeldClock) -> AsyncIterator[tuple[Server, ControlPlane]]:
    async with controlled(group_clock=process_time) as served:
        yield served


@pytest.fixture
def server(served: tuple[Server, ControlPlane]) -> Server:
    return served[0]


@pytest.fixture
def control(served: tuple[Server, ControlPlane]) -> ControlPlane:
    return served[1]


@pytest.fixture
async def stack(served: tuple[Server, ControlPlane]) -> AsyncIterator[AsyncExitStack]:
    """Exit the entered contexts before the server ends."""
    async with AsyncExitStack() as stack:
        yield stack
