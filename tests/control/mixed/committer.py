"""A client that commits one offset after another through all failures, and records the acknowledged ones."""

import asyncio
from collections.abc import Callable

from coordinator.broker.server import Server
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client
from tests.broker.test_group_partitions import code, commit, committed, fetch

PATIENCE_S = 0.3


class Committer:
    """A committer of a group without members. It calls `heard` after each acknowledged commit."""

    def __init__(self, server: Server, group_id: str, heard: Callable[[], None]) -> None:
        self.group_id = group_id
        self.acknowledged = self.last = 0
        self.wrong: list[tuple[str, int, int, int]] = []
        """Impossible results of reads: the group, and the acknowledged, found and last sent offsets."""
        self._server = server
        self._heard = heard
        self._task = asyncio.ensure_future(self._work())

    async def stop(self) -> None:
        """It commits no more."""
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)

    async def _work(self) -> None:
        while True:
            try:
                async with Client(self._server) as client:
                    await self._commit(client)
            except (OSError, EOFError, TimeoutError):
                await asyncio.sleep(0.001)

    async def _commit(self, client: Client) -> None:
        while True:
            await self._read_back(client)
            self.last += 1
            offset = self.last
            client.send(commit(offset, group=self.group_id), 2)
            if code(await client.receive(PATIENCE_S)) == ErrorCode.NONE:
                self.acknowledged = offset
                self._heard()
            await asyncio.sleep(0.001)

    async def _read_back(self, client: Client) -> None:
        client.send(fetch(self.group_id), 2)
        answer = await client.receive(PATIENCE_S)
        if answer.error_code == ErrorCode.NONE:
            self._judge(answer.topics[0].partitions[0].committed_offset)

    def _judge(self, found: int) -> None:
        if not self.acknowledged <= max(0, found) <= self.last:
            self.wrong.append((self.group_id, self.acknowledged, found, self.last))

    async def check(self, server: Server) -> None:
        """Check that no acknowledged offset is lost, and that every offset was sent."""
        async with Client(server) as client:
            self._judge(await committed(client, self.group_id))
        assert not self.wrong
