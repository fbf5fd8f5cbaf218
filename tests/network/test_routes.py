"""The table of who answers what, as connections use it."""

from collections.abc import Callable
from pathlib import Path

from coordinator.group.classic.heartbeat import RESPONSES
from coordinator.net.caller import Caller
from coordinator.net.routes import Routes
from coordinator.server.handlers.api_versions import refuse_api_versions
from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from tests.server.harness import Client, heartbeat_request, join_alone, serving


async def test_another_table_sees_every_request_also_those_that_come_again_just_so(tmp_path: Path) -> None:
    seen: list[object] = []

    def watch(request: object, caller: Caller) -> object:
        seen.append(request)
        return RESPONSES[ErrorCode.NONE]

    def nobody(request: object, caller: Caller) -> object:
        raise AssertionError("only heartbeats are sent")

    async with serving(tmp_path) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        beat = heartbeat_request("g", member_id, generation_id)
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        handlers: dict[int, Callable[[object, Caller], object]] = dict.fromkeys(APIS, nobody)
        watching = Routes({**handlers, ApiKey.HEARTBEAT: watch}, {}, refuse_api_versions)
        (endpoint,) = server.endpoints
        before, endpoint.routes = endpoint.routes, watching
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        assert len(seen) == 3
        endpoint.routes = before
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        assert len(seen) == 3
