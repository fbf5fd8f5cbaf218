"""The number of responses and their durations: each request counts once, wherever it waited."""

from protocol.apis import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import Client, serving
from tests.broker.test_group_partitions import commit

NS: int = 1_000_000_000


async def test_requests_behind_one_that_waits_for_the_disk_count_once() -> None:
    async with serving(None, {"log.flush": "always"}) as server, Client(server) as client:
        frames = [
            client.frame(commit(1), 2),
            client.frame(FindCoordinatorRequest(key="g"), 0),
            client.frame(FindCoordinatorRequest(key="h"), 0),
        ]
        refused = bytearray(client.frame(ApiVersionsRequest(), 0))
        refused[6:8] = (99).to_bytes(2, "big")
        client.writer.write(b"".join([*frames, refused]))
        for _ in range(4):
            await client.receive_frame()
        counts = server.routes.counts
        answered = {key: sum(counts[key].buckets) for key in (ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR)}
        assert answered == {ApiKey.OFFSET_COMMIT: 1, ApiKey.FIND_COORDINATOR: 2}
        assert all(count.sum_ns < 60 * NS for count in counts.values())
