"""The load generator sends the requests of a connection in turn and believes no answer: a server of our own."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import cast

import pytest

from benchmarks.connection import Connection
from benchmarks.flood import Load, Repeated, Side, in_turn
from benchmarks.groups import GROUPS, OFFSETS_PARTITIONS, group_names, speaking
from benchmarks.open_loop import Plan, offer_to
from benchmarks.process import Server
from protocol.partitioner import partition_for

FRAMES = [b"\0\0\0\x09request-" + str(number).encode() for number in range(4)]
SIZE = len(FRAMES[0])


class Echo(asyncio.Protocol):
    """Echoes its input in pieces of arbitrary length, with `wrong` as the third frame of later turns."""

    def __init__(self, seen: list[bytes], wrong: bytes | None) -> None:
        self._seen = seen
        self._wrong = wrong
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        whole = len(self._buffer) // SIZE * SIZE
        frames = [self._buffer[start : start + SIZE] for start in range(0, whole, SIZE)]
        self._buffer = self._buffer[whole:]
        self._seen += frames
        if self._wrong is not None and len(self._seen) > 2 * len(FRAMES):
            frames = [self._wrong if frame == FRAMES[2] else frame for frame in frames]
        answer = b"".join(frames)
        self._transport.write(answer[: len(answer) - 5])
        asyncio.get_running_loop().call_soon(self._transport.write, answer[len(answer) - 5 :])


@pytest.fixture
def seen() -> list[bytes]:
    return []


@pytest.fixture
async def address(seen: list[bytes], request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    wrong: bytes | None = getattr(request, "param", None)
    server = await asyncio.get_running_loop().create_server(lambda: Echo(seen, wrong), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield Server(os.getpid(), host, port)


async def flooded(address: Server, in_flight: int) -> int:
    connection = await Connection.open(address)
    side = Side(address, [await Repeated.prepare(connection, FRAMES)])
    load = Load(1, in_flight)
    try:
        (measured,) = (await in_turn({"echo": side}, [load], 1, 0.02))["echo", load]
    finally:
        connection.transport.abort()
    return measured.requests


@pytest.mark.parametrize("in_flight", [1, 3, 4, 7, 32])
async def test_requests_of_a_connection_go_out_in_turn(
    address: Server, seen: list[bytes], in_flight: int
) -> None:
    requests = await flooded(address, in_flight)
    asked_before = len(FRAMES)
    assert requests == len(seen) - asked_before >= in_flight
    assert seen[asked_before:] == [FRAMES[number % len(FRAMES)] for number in range(requests)]


class Numbering(asyncio.Protocol):
    """Answers each request with its number and `end`, in pieces that are cut anywhere."""

    def __init__(self, end: bytes) -> None:
        self._end = end
        self._answered = 0
        self._received_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        answer = b""
        while self._answered < self._received_bytes // SIZE:
            self._answered += 1
            end = b"end" if self._answered <= len(FRAMES) else self._end
            answer += b"\0\0\0\x0b" + self._answered.to_bytes(8, "big") + end
        for piece in (answer[:9], answer[9:]):
            asyncio.get_running_loop().call_soon(self._transport.write, piece)


NUMBER = slice(4, 12)


@pytest.mark.parametrize(
    ("end", "varying", "is_right"),
    [(b"end", NUMBER, True), (b"END", NUMBER, False), (b"end", None, False)],
    ids=["another number", "another end", "nothing may vary"],
)
@pytest.mark.parametrize("in_flight", [1, 7])
async def test_answers_may_differ_in_the_field_that_varies_alone(
    in_flight: int, end: bytes, varying: slice | None, is_right: bool
) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Numbering(end), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        address = Server(os.getpid(), host, port)
        connection = await Connection.open(address)
        repeated = await Repeated.prepare(connection, FRAMES, varying=varying)
        load = Load(1, in_flight)
        try:
            with nullcontext() if is_right else pytest.raises(ConnectionError, match="another answer"):
                await in_turn({"numbering": Side(address, [repeated])}, [load], 1, 0.02)
        finally:
            connection.transport.abort()


async def test_many_requests_in_turn_may_have_the_answers_of_the_first(
    address: Server, seen: list[bytes]
) -> None:
    connection = await Connection.open(address)
    requests = [FRAMES[number % 2] for number in range(60)]
    side = Side(address, [await Repeated.prepare(connection, requests, probes=2)])
    assert len(seen) == 2
    load = Load(1, 7)
    try:
        (measured,) = (await in_turn({"echo": side}, [load], 1, 0.02))["echo", load]
    finally:
        connection.transport.abort()
    assert measured.requests == len(seen) - 2
    assert seen[2:] == [FRAMES[number % 2] for number in range(measured.requests)]


@pytest.mark.parametrize("address", [FRAMES[1]], indirect=True)
async def test_the_answer_to_another_request_of_the_turn_is_wrong(address: Server) -> None:
    with pytest.raises(ConnectionError, match="another answer than expected"):
        await flooded(address, 32)


async def test_the_open_loop_sends_the_same_requests_in_turn(address: Server, seen: list[bytes]) -> None:
    connections = await speaking(address, [FRAMES[0], FRAMES[0]], 2)
    seen.clear()
    offered = await asyncio.to_thread(offer_to, Side(address, connections), Plan(2000, 0.05, 1))
    assert len(offered.latencies) == len(seen) == 100
    connections[0].connection.transport.abort()


@pytest.mark.parametrize("address", [FRAMES[1]], indirect=True)
async def test_the_open_loop_believes_no_answer_either(address: Server) -> None:
    connections = await speaking(address, [FRAMES[2]], 1)
    with pytest.raises(ConnectionError, match="another answer than expected"):
        await asyncio.to_thread(offer_to, Side(address, connections), Plan(2000, 0.05, 1))
    connections[0].connection.transport.abort()


async def test_connections_share_out_the_frames(address: Server) -> None:
    connections = await speaking(address, FRAMES, 3)
    assert [list(each.requests) for each in connections] == [FRAMES[:3], FRAMES[3:]]
    for each in connections:
        each.connection.transport.abort()


def test_groups_lie_on_all_offsets_partitions_and_those_of_a_connection_on_different_ones() -> None:
    partitions = [partition_for(name, OFFSETS_PARTITIONS) for name in group_names()]
    assert len(set(group_names())) == GROUPS
    assert set(Counter(partitions).values()) == {GROUPS // OFFSETS_PARTITIONS}
    assert all(len(set(partitions[first : first + 4])) == 4 for first in range(0, GROUPS, 4))
    assert len({len(name) for name in group_names()}) == 1
