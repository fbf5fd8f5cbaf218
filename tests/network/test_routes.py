"""The table of handlers by API, as connections use it."""

from pathlib import Path

from coordinator.core.interceptors import InterceptorRank
from coordinator.group.classic.classic_heartbeat import RESPONSES
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client, heartbeat_request, join_alone, serving


async def test_an_interceptor_sees_every_request_also_those_that_come_again_just_so(tmp_path: Path) -> None:
    seen: list[object] = []

    def watch(request: object, context: RequestContext) -> object:
        seen.append(request)
        return RESPONSES[ErrorCode.NONE]

    def intercept(_: Handler) -> Handler:
        return watch

    async with serving(tmp_path) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        beat = heartbeat_request("g", member_id, generation_id)
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        interceptors = server.routes.get_interceptors(ApiKey.HEARTBEAT)
        interceptors.add(InterceptorRank.FAULTS, intercept)
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        assert len(seen) == 3
        interceptors.remove(intercept)
        for _ in range(3):
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        assert len(seen) == 3
