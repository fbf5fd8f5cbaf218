"""A member that survives all failures: it reconnects and joins again."""

import asyncio

from coordinator.broker.server import Server
from tests.broker.harness import Client
from tests.control.clock.living_member import LivingMember

HURRIED_S, PATIENT_S = 0.5, 30


class Survivor(LivingMember):
    """`patience_s` is how long it waits for an answer."""

    def __init__(self, server: Server, group_id: str, client_id: str) -> None:
        super().__init__(server, group_id, client_id, rebalance_ms=3_000, session_ms=10_000)
        self.patience_s: float = HURRIED_S

    async def _live(self) -> None:
        while True:
            try:
                await super()._live()
            except (OSError, EOFError, TimeoutError):
                await self._connect_anew()

    async def _connect_anew(self) -> None:
        self.is_settled.clear()
        while True:
            self.client.writer.transport.abort()
            self.client = Client(self._server, self.client_id)
            try:
                await self.client.__aenter__()
            except OSError:
                await asyncio.sleep(0.001)
            else:
                return

    async def _asked(self, request: object, version: int) -> object:
        self.client.send(request, version)
        await asyncio.sleep(0.001)
        return await self.client.receive(self.patience_s)
