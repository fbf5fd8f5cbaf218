"""Daemons of one cluster in this process, each a server of its own, over the model of the engine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon.etcd_cluster import EtcdCluster
from coordinator.config.initial_topics import InitialTopic
from coordinator.core import clock
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from storage.memory_files import MemoryFiles
from tests.broker.harness import MEMORY_BYTES, Client, settings
from tests.cluster.model_store import ModelConnection, ModelStore

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ORDERS = (("orders", 3),)
SESSION_MS = 300_000
"""Nobody's session ends because the machine is busy."""
HANGS_S = 60


class Daemon:
    """One of them."""

    def __init__(self, node_id: int, server: Server, engine: ModelConnection) -> None:
        self.node_id = node_id
        self.server = server
        self.engine = engine
        self.client = Client(server)

    @property
    def cluster(self) -> EtcdCluster:
        """Its membership."""
        membership = self.server.membership
        assert isinstance(membership, EtcdCluster)
        return membership

    @property
    def owned(self) -> set[int]:
        """The partitions of groups that it owns."""
        assert self.cluster.member is not None
        return {
            partition.number for partition in self.cluster.member.owned if partition.topic == CONSUMER_OFFSETS
        }

    @property
    def transactions(self) -> set[int]:
        """The partitions of transactions that it owns, and has read."""
        parts = self.server.transactions.coordinator
        if parts is None:
            return set()
        return {part.number for part in parts.runtime.partitions if part.state is PartitionState.OWNED}

    def coordinates(self, group: str) -> bool:
        """Whether it owns the partition of a group, and has read it."""
        partition = self.server.runtime.find_partition(group)
        return partition.number in self.owned and partition.state is PartitionState.OWNED

    async def ask(self, request: Any, version: int) -> Any:
        """What it answers."""
        return await self.client.call(request, version)

    async def commit(self, offset: int, group: str = "g") -> int:
        """The error code of a commit of a group without members."""
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[part])
        answer = await self.ask(OffsetCommitRequest(group_id=group, topics=[topic]), 2)
        return int(answer.topics[0].partitions[0].error_code)

    async def committed(self, group: str = "g") -> int | ErrorCode:
        """The offset, or the error."""
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        answer = await self.ask(OffsetFetchRequest(group_id=group, topics=[topic]), 2)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return int(answer.topics[0].partitions[0].committed_offset)

    async def coordinator(self, group: str = "g") -> int:
        """Return the node id of the coordinator in this daemon's view, or -1."""
        answer = await self.ask(FindCoordinatorRequest(key=group), 3)
        return int(answer.node_id)


class Daemons:
    """All of them, by node id."""

    def __init__(
        self, data_dir: Path | None, stack: AsyncExitStack, topics: Sequence[tuple[str, int]] = ORDERS
    ) -> None:
        self._topics = topics
        self.declares: Sequence[tuple[str, int]] = ()
        """Additional declared topics; the start does not wait for them."""
        self.initial_topics: Sequence[InitialTopic] = ()
        """What variables of images ask for."""
        self.store = ModelStore()
        self.by_id: dict[int, Daemon] = {}
        self._data_dir = data_dir or Path("/data")
        self._files = None if data_dir else MemoryFiles(MEMORY_BYTES, clock.wall_ms)
        self._stack = stack

    async def start(
        self,
        node_id: int,
        directory: str = "",
        **properties: str,
    ) -> Daemon:
        """Start a daemon or restart one. `directory` replaces the data directory of an earlier run."""
        server, engine = await self.open(node_id, directory, **properties)
        await server.listen()
        await asyncio.wait_for(server.ready.wait(), HANGS_S)
        await eventually(
            lambda: all(server.data_plane.catalogue.find_topic(name) for name, _ in self._topics)
        )
        daemon = Daemon(node_id, server, engine)
        await self._stack.enter_async_context(daemon.client)
        self.by_id[node_id] = daemon
        return daemon

    async def open(
        self, node_id: int, directory: str = "", **properties: str
    ) -> tuple[Server, ModelConnection]:
        """Open the server of a daemon, which does not listen yet."""
        texts = {
            "node.id": str(node_id),
            "broker.session.timeout.ms": str(SESSION_MS),
            "cluster.move.delay.ms": "0",
            "cluster.etcd.endpoints": "model:1",
            **properties,
        }
        how = replace(
            settings(
                self._data_dir / (directory or str(node_id)),
                texts,
                topics=[*self._topics, *self.declares],
                files=self._files,
            ),
            cluster_id=CLUSTER_ID,
            initial_topics=self.initial_topics,
        )
        engine = ModelConnection(self.store)
        cluster = EtcdCluster(how, engine, ClusterKeys(CLUSTER_ID))
        await cluster.read_cluster()
        return open_server(how, membership=cluster), engine

    async def owner(self, group: str = "g") -> Daemon:
        """Wait for a coordinator of the group that has loaded its partition, and return it."""
        found: list[Daemon] = []

        def is_there() -> bool:
            found[:] = [each for each in self.by_id.values() if each.coordinates(group)]
            return bool(found)

        await eventually(is_there)
        return found[0]

    def is_placed(self) -> bool:
        """Whether each has its share, and has read it."""
        daemons = list(self.by_id.values())
        partitions = len(daemons[0].server.runtime.partitions)
        shares = [len(each.owned) for each in daemons]
        is_read = all(
            part.state is PartitionState.OWNED
            for each in daemons
            for part in each.server.runtime.partitions
            if part.number in each.owned
        )
        return is_read and sum(shares) == partitions and max(shares) <= -(-partitions // len(daemons))

    async def kill(self, daemon: Daemon) -> None:
        """End a daemon as signal 9 would: it returns nothing to the cluster and writes nothing; its session ends at
        once, and so do the connections of its clients."""
        assert daemon.cluster.member is not None
        lease = daemon.cluster.member.keeper.session.lease
        del self.by_id[daemon.node_id]
        daemon.engine.is_cut = True
        daemon.server.abandon()
        self.store.do(lambda map_: map_.revoke(lease))


async def eventually(holds: Callable[[], bool]) -> None:
    """Returns when something holds."""
    async with asyncio.timeout(HANGS_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def daemons(data_dir: Path | None, count: int, **properties: str) -> AsyncIterator[Daemons]:
    """Start `count` daemons and wait until each has its share of the partitions.

    Without a directory their files are in memory.
    """
    async with daemons_with(ORDERS, data_dir, count, **properties) as all_of_them:
        yield all_of_them


@asynccontextmanager
async def daemons_with(
    topics: Sequence[tuple[str, int]], data_dir: Path | None, count: int, **properties: str
) -> AsyncIterator[Daemons]:
    """The same with other topics."""
    async with AsyncExitStack() as stack:
        all_of_them = Daemons(data_dir, stack, topics)
        try:
            for node_id in range(1, count + 1):
                await all_of_them.start(node_id, **properties)
            await eventually(all_of_them.is_placed)
            yield all_of_them
        finally:
            for daemon in all_of_them.by_id.values():
                daemon.engine.is_cut = False
                await daemon.server.close()
