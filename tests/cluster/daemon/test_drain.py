"""A daemon that stops releases all partitions, also if they move, load or fail meanwhile."""

import asyncio

from coordinator.core.shared_types import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition
from tests.cluster.daemon.cluster_daemons import daemons


async def test_a_partition_that_is_doubted_as_the_daemon_stops_keeps_nothing_back() -> None:
    async with daemons(None, 2) as cluster:
        first = await cluster.owner()
        assert await first.commit(7) == ErrorCode.NONE
        server, own = first.server, first.cluster
        assert own is not None
        assert own.member is not None
        number = min(first.owned)
        del cluster.by_id[first.node_id]
        drain, loop = own.member.release_all, asyncio.get_running_loop()

        async def drained(timeout_s: float) -> None:
            loop.call_soon(own.owned_partitions.doubt_partition, TopicPartition(CONSUMER_OFFSETS, number))
            await drain(timeout_s)

        own.member.release_all = drained  # type: ignore[method-assign]
        await server.close()
        heir = await cluster.owner()
        assert await heir.committed() == 7
