"""The ends of the parts of a server: in reverse order, and after an error without anything that writes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.broker.server import ServerExits
from coordinator.runtime.engine import Engine
from protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import Client, settings, start


class Parts:
    """Parts that record their ends."""

    def __init__(self, *names: str) -> None:
        self.ends: list[str] = []
        self.exits = ServerExits()
        for name in names:
            self.push(name)

    def push(self, name: str, close: Callable[[], None] | None = None) -> None:
        """Add a part."""
        self.exits.push(
            close=close or (lambda: self.ends.append(f"close {name}")),
            abandon=lambda: self.ends.append(f"abandon {name}"),
        )

    def fail(self) -> None:
        """Fail as a full disk does."""
        raise OSError("full")


async def test_parts_close_in_the_reverse_order_of_their_creation() -> None:
    parts = Parts("directory", "threads")

    async def leave() -> None:
        parts.ends.append("leave")

    parts.exits.push(close=leave)
    await parts.exits.close()
    assert parts.ends == ["leave", "close threads", "close directory"]
    parts.exits.abandon()
    assert parts.ends == ["leave", "close threads", "close directory"]


async def test_a_failed_close_abandons_the_parts_that_are_left() -> None:
    """The directory does not get the marker of a clean stop."""
    parts = Parts("directory", "threads")
    parts.push("logs", parts.fail)
    parts.push("listeners")
    with pytest.raises(OSError, match="full"):
        await parts.exits.close()
    assert parts.ends == ["close listeners", "abandon logs", "abandon threads", "abandon directory"]


async def test_an_error_of_one_part_does_not_keep_the_others() -> None:
    parts = Parts("directory")
    parts.exits.push(abandon=parts.fail)
    parts.push("threads")
    with pytest.raises(OSError, match="full"):
        parts.exits.abandon()
    assert parts.ends == ["abandon threads", "abandon directory"]


async def test_a_cancelled_stop_closes_the_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a namespace continues, and its clients must not wait for responses that never come."""
    server = await start(settings(tmp_path))
    is_draining = asyncio.Event()

    async def hang(_: Engine) -> None:
        is_draining.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Engine, "shut_down", hang)
    async with Client(server) as client:
        await client.call(ApiVersionsRequest(), 0)
        stop = asyncio.ensure_future(server.close())
        await is_draining.wait()
        stop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stop
        assert await client.closed()
