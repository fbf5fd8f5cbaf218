"""Repeated identical requests have the same responses and effects as on the normal path."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, cast

import pytest

from coordinator.apis.broker_handlers import encode_unsupported_api_versions
from coordinator.broker.server import Server
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_heartbeat import RESPONSES
from coordinator.network.client_connection import Connection
from coordinator.network.endpoint import Endpoint
from coordinator.network.repeated_requests import (
    MAX_CACHED,
    MAX_FRAME_BYTES,
    MISSES_UNTIL_RESET,
    AnsweredRequest,
    Repetition,
)
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Routes
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving
from tests.runtime.held_clock import HeldClock
from tests.storage.faulty_files import FaultyFiles

MEMBERS = MAX_CACHED + 16
SESSION_TIMEOUT_MS = 10_000
STEPS = 400


class Sent:
    """A transport that keeps the written bytes."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: bytes | bytearray) -> None:
        """Takes answers."""
        self.written += data

    def get_extra_info(self, _: str) -> object:
        """Return None, because the connection has no socket."""
        return None

    def get_write_buffer_size(self) -> int:
        """Everything leaves at once."""
        return 0

    def is_closing(self) -> bool:
        """Return whether the server has closed it."""
        return self.is_closed

    def close(self) -> None:
        """Note that the server closes it."""
        self.is_closed = True


def connect(endpoint: Endpoint) -> tuple[Connection, Sent]:
    """A connection of a listener, without a socket."""
    connection, sent = Connection(endpoint, ("127.0.0.1", 1)), Sent()
    connection.connection_made(cast("asyncio.Transport", sent))
    return connection, sent


def nobody(request: object, context: RequestContext) -> object:
    raise AssertionError("only heartbeats are sent")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    held = HeldClock()
    held.hold()
    properties = {"group.initial.rebalance.delay.ms": "0"}
    async with serving("/data", properties, files=FaultyFiles(), group_clock=held) as server:
        yield server


class Heard:
    """When the session of each member ends."""

    def __init__(self, server: Server) -> None:
        shards = [partition.machine for partition in server.runtime.partitions]
        groups = [group for shard in shards if shard for group in shard._groups.by_id.values()]
        classic = [group for group in groups if isinstance(group, ClassicGroup)]
        self._members = [member for group in classic for member in group.members.values()]
        self.deadlines = [member.session_deadline_ms for member in self._members]

    def restore(self) -> None:
        """As it was."""
        for member, deadline_ms in zip(self._members, self.deadlines, strict=True):
            member.session_deadline_ms = deadline_ms


async def fed(connection: Connection, sent: Sent, pieces: list[bytes]) -> bytes:
    """Feed the pieces to a connection and return its responses."""
    start = len(sent.written)
    for piece in pieces:
        connection.data_received(piece)
        while connection._replies or len(connection._endpoint.run_queue):  # noqa: ASYNC110 - there is no event for this
            await asyncio.sleep(0)
    return bytes(sent.written[start:])


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_sent_its_answers_and_effects_are_those_of_requests_that_are_decoded(
    server: Server, seed: int
) -> None:
    random, held = Random(seed), server.group_clock
    assert isinstance(held, HeldClock)
    async with Client(server) as client, Client(server) as other:
        joined = [(f"g{number}", *await join_alone(client, f"g{number}")) for number in range(MEMBERS)]
        (endpoint,) = server.endpoints
        plain_endpoint = copy.copy(endpoint)
        plain_endpoint.routes = Routes(endpoint.routes._handlers, {}, encode_unsupported_api_versions)
        plain, repeating = connect(plain_endpoint), connect(endpoint)
        number = 0
        shown: set[bytes] = set()
        for step in range(STEPS):
            held.advance(random.choice((0, 1, 50, 300)))
            if step % 50 == 49:
                other.send(join_request(f"g{random.randrange(4)}"), 3)
            await client.call(ListGroupsRequest(), 4)  # timers have fired by then, and the join has come
            data = b""
            spoken_for = joined[: random.choice((1, 4, 4, MEMBERS))]
            for _ in range(random.choice((1, 1, 2, 5, 12))):
                group_id, member_id, generation_id = random.choice(spoken_for)
                beat = heartbeat_request(group_id, member_id, generation_id - (random.random() < 0.05))
                request: Any = beat if random.random() < 0.95 else ListGroupsRequest(states_filter=["Dead"])
                number += 1
                data += encode_request(*asked(request, random), number, "client", request)
            cut = random.choice((0, 0, 0, random.randrange(len(data))))
            pieces = [piece for piece in (data[:cut], data[cut:]) if piece]
            before = Heard(server)
            expected = await fed(*plain, pieces)
            heard = Heard(server)
            before.restore()
            assert await fed(*repeating, pieces) == expected
            assert Heard(server).deadlines == heard.deadlines
            shown.add(expected[8:])
        # After the correlation id a heartbeat's answer has a throttle time and an error.
        errors = {ErrorCode(int.from_bytes(end[4:], "big")) for end in shown if len(end) == 6}
        assert ErrorCode.NONE in errors
        assert len(errors) > 2, errors


def asked(request: object, random: Random) -> tuple[ApiKey, int]:
    """By which API and version a request is sent."""
    if isinstance(request, ListGroupsRequest):
        return ApiKey.LIST_GROUPS, 4
    return ApiKey.HEARTBEAT, random.choice((0, 1, 3, 4))


class Decoded:
    """Answers heartbeats, and notes which had to be decoded."""

    def __init__(self) -> None:
        self.requests: list[HeartbeatRequest] = []
        handlers: dict[int, Callable[[Any, RequestContext], object]] = {**dict.fromkeys(APIS, nobody)}
        handlers[ApiKey.HEARTBEAT] = self._handle
        self.routes = Routes(handlers, {ApiKey.HEARTBEAT: self._repeat}, encode_unsupported_api_versions)

    def _handle(self, request: HeartbeatRequest, _: RequestContext) -> object:
        self.requests.append(request)
        refused = request.generation_id < 0
        return RESPONSES[ErrorCode.ILLEGAL_GENERATION if refused else ErrorCode.NONE]

    def _repeat(self, answered: AnsweredRequest) -> Repetition | None:
        response = answered.response
        if response is not RESPONSES[ErrorCode.NONE]:
            return None
        return Repetition(answered.request, response, lambda *_: response)


@pytest.fixture
def decoded(server: Server) -> Decoded:
    decoded = Decoded()
    server.endpoints[0].routes = decoded.routes
    return decoded


def frame(member_id: str, generation_id: int = 1) -> bytes:
    beat = heartbeat_request("g", member_id, generation_id)
    return bytes(encode_request(ApiKey.HEARTBEAT, 4, 7, "client", beat))


@pytest.mark.parametrize("in_one_read", [False, True])
async def test_the_heartbeats_of_many_members_are_decoded_once_each(
    server: Server, decoded: Decoded, in_one_read: bool
) -> None:
    connection, sent = connect(server.endpoints[0])
    frames = [frame(f"member-{number}") for number in range(MAX_CACHED)]
    for _ in range(5):
        await fed(connection, sent, [b"".join(frames)] if in_one_read else frames)
    assert len(decoded.requests) == MAX_CACHED


async def test_what_is_kept_is_bounded_and_makes_room_for_those_that_are_left(
    server: Server, decoded: Decoded
) -> None:
    connection, sent = connect(server.endpoints[0])
    for number in range(MAX_CACHED):
        await fed(connection, sent, [frame(f"gone-{number}")])
    decoded.requests.clear()
    here = frame("here")
    for _ in range(2 * MISSES_UNTIL_RESET):
        await fed(connection, sent, [here])
    assert len(decoded.requests) == MISSES_UNTIL_RESET
    decoded.requests.clear()
    long = frame("x" * MAX_FRAME_BYTES)
    for _ in range(3):
        await fed(connection, sent, [long])
    assert len(decoded.requests) == 3


async def test_only_heartbeats_to_which_all_was_well_are_kept(server: Server, decoded: Decoded) -> None:
    connection, sent = connect(server.endpoints[0])
    for _ in range(3):
        await fed(connection, sent, [frame("m", generation_id=-2)])
    assert len(decoded.requests) == 3
