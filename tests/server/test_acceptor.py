from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.server.harness import Client, join_request, serving


@pytest.mark.parametrize(
    "properties",
    [
        {"max.connections": "2"},
        {"max.connections.per.ip": "2"},
        {"max.connections.per.ip.overrides": "127.0.0.1:2,10.0.0.1:1"},
    ],
)
async def test_connections_beyond_the_limit_are_turned_away(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    async with serving(tmp_path, properties) as server, Client(server) as first:
        assert (await first.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        async with Client(server) as second:
            assert (await second.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
            async with Client(server) as third:
                assert await third.closed()
            assert (await first.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
            second.writer.transport.abort()
        while len(server.connections.open) > 1:
            await first.call(ListGroupsRequest(), 0)
        async with Client(server) as fourth:
            assert (await fourth.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE


async def test_a_silent_connection_is_closed_but_not_one_that_awaits_an_answer(tmp_path: Path) -> None:
    properties = {"connections.max.idle.ms": "150", "group.initial.rebalance.delay.ms": "60000"}
    async with serving(tmp_path, properties) as server, Client(server) as idle, Client(server) as parked:
        parked.send(join_request("g"), 3)
        assert await idle.closed()
        assert len(server.connections.open) == 1


async def test_without_an_idle_time_nothing_is_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, {"connections.max.idle.ms": "-1"}) as server, Client(server) as client:
        await client.call(ListGroupsRequest(), 0)
        server.connections.close_idle()
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
