"""A daemon that stops gives everything back, whatever else happens to its partitions meanwhile."""

import asyncio

from coordinator.names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition
from tests.cluster.daemons import daemons


async def test_a_partition_that_is_doubted_as_the_daemon_stops_keeps_nothing_back() -> None:
    async with daemons(None, 2) as cluster:
        first = await cluster.owner()
        assert await first.commit(7) == ErrorCode.NONE
        server, own = first.server, first.server.cluster
        assert own is not None
        assert own.member is not None
        number = min(first.owned)
        del cluster.by_id[first.node_id]
        drain, loop = own.member.drain, asyncio.get_running_loop()

        async def drained(timeout_s: float) -> None:
            loop.call_soon(own.served.doubt, TopicPartition(CONSUMER_OFFSETS, number))
            await drain(timeout_s)

        own.member.drain = drained  # type: ignore[method-assign]
        await server.close()
        heir = await cluster.owner()
        assert await heir.committed() == 7
