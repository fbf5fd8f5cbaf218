"""A server in this process on free ports, and a client that speaks the protocol by hand.

async with serving() as server, Client(server) as client:
    answer = await client.call(ListGroupsRequest(), 4)
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.server_view import ServerMetrics, collect_metrics
from coordinator.config.listener_security import create_listener_settings
from coordinator.config.listeners import parse_listeners
from coordinator.config.properties import parse_config
from coordinator.config.setting_sources import PROFILES
from coordinator.core import clock
from coordinator.core.shared_types import SecurityProtocol
from coordinator.core.time_budget import UnlimitedBudget, run_in_one_step
from coordinator.runtime.timers import GroupClock
from protocol.apis import APIS
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request, response_body_position
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.schema import message_info
from storage.files import Files, OsFiles
from storage.memory_files import MemoryFiles

TIMEOUT_S = 60
IN_MEMORY = "/data"
MEMORY_BYTES = 1 << 30


def settings(
    data_dir: Path | str | None,
    properties: Mapping[str, str] | None = None,
    *,
    topics: Sequence[tuple[str, int]] = (),
    files: Files | None = None,
    profile: Mapping[str, str] = PROFILES["test"],
) -> ServerSettings:
    """Return the settings of a server: the profile for tests (or another one), few partitions, free ports.

    Without a data directory its files are in memory, which takes half the time.
    """
    texts = {
        **profile,
        "offsets.topic.num.partitions": "3",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        **(properties or {}),
    }
    config = parse_config(texts)
    listeners, _ = parse_listeners(config)
    return ServerSettings(
        config=config,
        listeners=listeners,
        data_dir=IN_MEMORY if data_dir is None else str(data_dir),
        topics=list(topics),
        properties=texts,
        security={
            listener.name: create_listener_settings(config, texts, listener)
            for listener in listeners
            if listener.protocol is not SecurityProtocol.PLAINTEXT
        },
        files=files or (OsFiles() if data_dir else MemoryFiles(MEMORY_BYTES, clock.wall_ms)),
    )


async def start(how: ServerSettings, *, wait: bool = True, group_clock: GroupClock | None = None) -> Server:
    """A server that listens; ready as well, unless `wait` is false."""
    server = open_server(how, group_clock=group_clock)
    await server.listen()
    if wait:
        await asyncio.wait_for(server.ready.wait(), TIMEOUT_S)
    return server


@asynccontextmanager
async def serving(
    data_dir: Path | str | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    topics: Sequence[tuple[str, int]] = (("orders", 3),),
    files: Files | None = None,
    group_clock: GroupClock | None = None,
    profile: Mapping[str, str] = PROFILES["test"],
) -> AsyncIterator[Server]:
    """A server that is ready, closed cleanly at the end."""
    how = settings(data_dir, properties, topics=topics, files=files, profile=profile)
    server = await start(how, group_clock=group_clock)
    try:
        yield server
    finally:
        await server.close()


serving_kafka_defaults = partial(serving, profile={})
"""The same without the profile, with Kafka's defaults."""


def read_metrics(server: Server) -> ServerMetrics:
    """All metrics of a server, at one time."""
    return run_in_one_step(collect_metrics(server, UnlimitedBudget()))


class Client:
    """One connection. Requests may be pipelined with `send` and `receive`."""

    def __init__(
        self,
        server: Server | None = None,
        client_id: str | None = "test-client",
        *,
        port: int | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._host = host
        if port is None:
            assert server is not None, "where to?"
            port = server.endpoints[0].port
        self._port = port
        self._tls = tls
        self._client_id = client_id
        self._correlation_id = 0
        self._sent: list[tuple[int, int, int, type[Any]]] = []

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.wait_for(
            asyncio.open_connection(self._host, self._port, ssl=self._tls), TIMEOUT_S
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def frame(self, request: Any, version: int) -> bytes:
        """The bytes of the next request; its answer is expected in turn."""
        self._correlation_id += 1
        key = message_info(type(request)).api_key
        self._sent.append((key, version, self._correlation_id, APIS[key].response))
        return bytes(encode_request(key, version, self._correlation_id, self._client_id, request))

    def send(self, request: Any, version: int) -> None:
        """Sends a request and does not wait for the answer."""
        self.writer.write(self.frame(request, version))

    async def receive(self, wait_s: float | None = TIMEOUT_S) -> Any:
        """The answer to the earliest request that has none yet."""
        key, version, correlation_id, response = self._sent.pop(0)
        frame = await self.receive_frame(wait_s)
        assert int.from_bytes(frame[:4], "big") == correlation_id
        return decode(response, version, frame, response_body_position(key, version, frame))

    async def receive_frame(self, wait_s: float | None = TIMEOUT_S) -> bytes:
        """The next frame, without its size."""
        size = int.from_bytes(await asyncio.wait_for(self.reader.readexactly(4), wait_s), "big")
        return await asyncio.wait_for(self.reader.readexactly(size), TIMEOUT_S)

    async def call(self, request: Any, version: int) -> Any:
        """Sends a request and waits for its answer."""
        self.send(request, version)
        return await self.receive()

    async def closed(self) -> bool:
        """Waits for the end of the connection; whether it came without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(), TIMEOUT_S) == b""
        except ConnectionResetError:
            return True


def join_request(group: str, member_id: str = "", *, session_timeout_ms: int = 10_000) -> JoinGroupRequest:
    """A JoinGroup of a plain consumer."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0")
        ],
    )


def sync_request(
    group: str, member_id: str, generation_id: int, assignments: Mapping[str, bytes] | None = None
) -> SyncGroupRequest:
    """A SyncGroup; of the leader, where there are assignments."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation_id,
        member_id=member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=data)
            for member, data in (assignments or {}).items()
        ],
    )


def heartbeat_request(group: str, member_id: str, generation_id: int) -> HeartbeatRequest:
    """A Heartbeat."""
    return HeartbeatRequest(group_id=group, generation_id=generation_id, member_id=member_id)


async def join_alone(client: Client, group: str, version: int = 3) -> tuple[str, int]:
    """Makes the client the only member of a Stable group; its member id and the generation."""
    joined: JoinGroupResponse = await client.call(join_request(group), version)
    assert joined.error_code == 0, joined
    synced: SyncGroupResponse = await client.call(
        sync_request(group, joined.member_id, joined.generation_id, {joined.member_id: b"all"}), 3
    )
    assert synced.error_code == 0, synced
    return joined.member_id, joined.generation_id


async def begin_producer(client: Client, transactional_id: str) -> InitProducerIdResponse:
    """Find the coordinator of a transactional id, which creates `__transaction_state`, and get a producer id."""
    found = await client.call(FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
    assert found.error_code == ErrorCode.NONE
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer: InitProducerIdResponse = await client.call(asked, 5)
    while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        await asyncio.sleep(0.01)
        answer = await client.call(asked, 5)
    assert answer.error_code == ErrorCode.NONE
    return answer
