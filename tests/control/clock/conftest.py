"""A server whose groups may be given clocks."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from coordinator.control.control import Control
from coordinator.server.server import Server
from tests.control.serving import controlled
from tests.engine.held_clock import HeldClock


@pytest.fixture
def process_time() -> HeldClock:
    """The time that all other clocks are counted from: it can be moved, so that hours pass in no time."""
    return HeldClock()


@pytest.fixture
async def served(process_time: HeldClock) -> AsyncIterator[tuple[Server, Control]]:
    async with controlled(group_clock=process_time) as served:
        yield served


@pytest.fixture
def server(served: tuple[Server, Control]) -> Server:
    return served[0]


@pytest.fixture
def control(served: tuple[Server, Control]) -> Control:
    return served[1]


@pytest.fixture
async def stack(served: tuple[Server, Control]) -> AsyncIterator[AsyncExitStack]:
    """Ends what was entered before the server ends."""
    async with AsyncExitStack() as stack:
        yield stack
