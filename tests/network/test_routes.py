"""The table of who answers what, as connections use it."""

from collections.abc import Callable
from pathlib import Path

from coordinator.apis.broker_handlers import encode_unsupported_api_versions
from coordinator.group.classic.classic_heartbeat import RESPONSES
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Routes
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client, heartbeat_request, join_alone, serving


async def test_another_table_sees_every_request_also_those_that_come_again_just_so(tmp_path: Path) -> None:
    seen: list[object] = []

    def watch(request: object, context: RequestContext) -> object:
        seen.append(request)
        return RESPONSES[ErrorCode.NONE]

    def nobody(request: object, context: RequestContext) -> object:
        raise AssertionError("only heartbeats are sent")

    async with serving(tmp_path) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        beat = heartbeat_request("g", member_id, generation_id)
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        handlers: dict[int, Callable[[object, RequestContext], object]] = dict.fromkeys(APIS, nobody)
        watching = Routes({**handlers, ApiKey.HEARTBEAT: watch}, {}, encode_unsupported_api_versions)
        (endpoint,) = server.endpoints
        before, endpoint.routes = endpoint.routes, watching
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        assert len(seen) == 3
        endpoint.routes = before
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        assert len(seen) == 3
