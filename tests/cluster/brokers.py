"""Three brokers in this process, and a client at each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coordinator.broker.server import Server
from coordinator.cluster.in_process_ownership import InProcessOwnership
from protocol.messages.find_coordinator import FindCoordinatorRequest
from storage.topic_partition import TopicPartition
from tests.broker.harness import TIMEOUT_S, Client, settings, start

NODE_IDS = (1, 2, 3)


class Cluster:
    """A server of three brokers, with a connection to each."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: dict[int, Client] = {}

    def port(self, node_id: int) -> int:
        """Where clients of a broker connect."""
        [endpoint] = self.server.brokers.listeners[node_id].endpoints
        return endpoint.port

    def list_owned(self, node_id: int) -> list[TopicPartition]:
        """Return the partitions that a broker owns."""
        ownership = self.server.membership.ownership
        assert isinstance(ownership, InProcessOwnership)
        return ownership.list_owned()[node_id]

    def partition(self, group: str) -> TopicPartition:
        """That of a group."""
        return self.server.runtime.find_partition(group).name

    def owner(self, partition: TopicPartition) -> int:
        """The broker that owns a partition, which has one."""
        owner = self.server.membership.ownership.find_owner(partition)
        assert owner is not None
        return owner

    def others(self, partition: TopicPartition) -> list[int]:
        """The brokers that do not."""
        return [node_id for node_id in NODE_IDS if node_id != self.owner(partition)]

    async def found(self, group: str, at: int) -> tuple[int, int]:
        """Return id and port of the coordinator of a group, from the FindCoordinator response of a broker."""
        answer = await self.clients[at].call(FindCoordinatorRequest(key=group), 3)
        assert answer.error_code == 0, answer
        return answer.node_id, answer.port

    async def until(self, at: int, request: Any, version: int, error: int = 0) -> Any:
        """Asks a broker again and again, until it answers with this error code."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                answer = await self.clients[at].call(request, version)
                if answer.error_code == error:
                    return answer
                await asyncio.sleep(0.005)


async def eventually(holds: Callable[[], bool]) -> None:
    """Returns when something holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def three_brokers(
    data_dir: Path, properties: Mapping[str, str] | None = None
) -> AsyncIterator[Cluster]:
    """Start three brokers with a topic of six partitions. `properties` with listeners start no client."""
    how = settings(data_dir, properties, topics=[("orders", 6)])
    server = await start(replace(how, brokers=len(NODE_IDS)))
    try:
        async with AsyncExitStack() as stack:
            cluster = Cluster(server)
            for node_id in () if "listeners" in (properties or {}) else NODE_IDS:
                client = Client(port=cluster.port(node_id))
                cluster.clients[node_id] = await stack.enter_async_context(client)
            yield cluster
    finally:
        await server.close()
