"""Faults as a test writes them, and the check that they leave no state."""

import asyncio
from typing import Any

import msgspec

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.faults.fault_rule import FaultRule, FaultStatus
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import TIMEOUT_S, Client


class Lab:
    """A server and its faults."""

    def __init__(self, server: Server, control: ControlPlane) -> None:
        self.server = server
        self.control = control
        self.faults = control.faults

    def fault(self, match: dict[str, Any] | None = None, **fields: Any) -> str:
        """Makes a fault, in JSON, as HTTP would; its name."""
        if match is not None:
            fields["match"] = match
        rule = msgspec.json.decode(msgspec.json.encode(fields), type=FaultRule)
        return self.faults.install_fault(rule).name

    async def hit(self, name: str, times: int = 1) -> FaultStatus:
        """Waits until a fault has hit."""
        return await self.faults.wait_for_hits(name, times, TIMEOUT_S * 1000)

    def status(self, name: str) -> FaultStatus:
        return self.faults.get_status(name)

    def is_plain(self) -> bool:
        """Return whether requests take their normal path, without faults."""
        server = self.server
        return (
            not any(routes.is_intercepted for routes in server.routes_by_broker.values())
            and not self.faults.held_count
            and not self.faults.waiter_count
            and not server.runtime.append_interceptors
            and not server.flusher.sync_interceptors
            and not any(connection.unanswered_requests for connection in server.connections.open)
        )

    async def until_plain(self) -> None:
        """Wait until cut connections are closed as well."""
        async with asyncio.timeout(TIMEOUT_S), Client(self.server) as client:
            while not self.is_plain():
                await client.call(ListGroupsRequest(), 0)
