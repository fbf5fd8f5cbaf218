"""The API under siege: Kafka's clients notice nothing, and it is there afterwards."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession

from coordinator.control.faults.fault_registry import MAX_FAULTS
from tests.hostile.siege.siege import besieged
from tests.hostile.test_turns import make_groups
from tests.http.test_http import Caller, asked, get

TIMEOUT_MS: Final = 2_000
LATEST_MS: Final = 250
READERS: Final = 10
REQUESTS: Final = 4_000
AT_ONCE: Final = 20
JSON: Final = {"Content-Type": "application/json"}
MIB: Final = 1024 * 1024
HEAD: Final = b"PUT /v1/groups/g/offsets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODIES: Final = {
    "deep": b'{"offsets":' + b'{"a":' * (MIB // 6),
    "lists": b'{"topics":' + b"[" * (MIB - 20),
    "offsets": b'{"offsets":{' + b",".join(b'"orders-%d":1' % number for number in range(60_000)) + b"}}",
    "topics": b'{"to":"latest","topics":[' + b",".join([b'"orders"'] * 100_000) + b"]}",
    "digits": b'{"to":' + b"9" * (MIB - 10) + b"}",
    "text": b'{"to":"' + b"\\u0041" * (MIB // 6 - 10) + b'"}',
}


async def in_turns(count: int, act: Callable[[int], Awaitable[None]]) -> None:
    """Does something so often, some at a time."""

    async def some(first: int) -> None:
        for number in range(first, count, AT_ONCE):
            await act(number)

    await asyncio.gather(*map(some, range(AT_ONCE)))


async def test_as_many_faults_as_there_may_be_and_no_more(tmp_path: Path) -> None:
    """Half of them are of the neighbours' own heartbeats."""
    apis = ("Heartbeat", "Fetch")
    async with besieged(tmp_path) as siege:
        url = f"http://127.0.0.1:{siege.daemon.http_port}/v1/faults"
        async with ClientSession() as session:
            for number in range(MAX_FAULTS):
                match = {"api": apis[number % 2], "group": f"nobody-{number}"}
                if apis[number % 2] == "Fetch":
                    del match["group"]
                    match["client_id"] = f"nobody-{number}"
                rule = {"match": match, "do": {"at": "request", "hold": True}}
                async with session.post(url, json=rule) as answer:
                    assert answer.status < 300, await answer.text()
            await siege.begin()
            async with session.post(url, json=rule) as answer:
                assert answer.status == 429
                assert "DELETE /v1/faults" in (await answer.json())["detail"]
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll


async def test_many_lists_of_many_groups(tmp_path: Path) -> None:
    async with besieged(tmp_path, ["--topic", "orders:1"]) as siege:
        await make_groups(siege.attacker)
        await siege.begin()
        url = f"http://127.0.0.1:{siege.daemon.http_port}/v1/groups"

        async def read(session: ClientSession) -> None:
            for query in ("", "?state=Empty", "?prefix=x"):
                async with session.get(url + query) as answer:
                    assert answer.status == 200
                    await answer.read()

        async with AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(ClientSession()) for _ in range(READERS)]
            await asyncio.gather(*map(read, sessions))
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_large_bodies_and_slow_ones(tmp_path: Path) -> None:
    limits = ("-o", f"http.request.timeout.ms={TIMEOUT_MS}", "--topic", "orders:3")
    async with besieged(tmp_path, limits) as siege, AsyncExitStack() as stack:
        port = siege.daemon.http_port
        # The imports of the first request (18 MB) do not count.
        assert (await asked(port, get("/v1/groups")))[0] == 200
        await siege.begin()
        for _ in range(100):
            slow = await stack.enter_async_context(Caller(port))
            slow.writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n" + b" " * 500_000)
        async with ClientSession() as session:
            statuses: dict[str, set[int]] = {}

            async def send(number: int) -> None:
                name, body = list(BODIES.items())[number % len(BODIES)]
                url = f"http://127.0.0.1:{port}/v1/groups/g/offsets"
                try:
                    async with session.put(url, data=body, headers=JSON) as answer:
                        statuses.setdefault(name, set()).add(answer.status)
                        await answer.read()
                except ClientError:
                    pass  # its place was taken by another

            await in_turns(300, send)
        assert statuses.keys() == BODIES.keys()
        assert set.union(*statuses.values()) <= {400, 429}, statuses
        assert (await asked(port, get("/v1/groups")))[0] == 200
        assert " ERROR " not in siege.daemon.log()
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_thousands_of_requests(tmp_path: Path) -> None:
    wrong: list[tuple[str, str, Mapping[str, str], int]] = [
        ("GET", "/v1/groups/nobody", {}, 404),
        ("GET", "/v1/nothing", {}, 404),
        ("GET", "/v1/groups?x=1", {}, 400),
        ("POST", "/v1/groups", {}, 405),
        ("DELETE", "/v1/groups/nobody", {"Origin": "http://evil.example"}, 403),
        ("DELETE", "/v1/groups/nobody", {}, 404),
        ("PUT", "/v1/groups/g/offsets", JSON, 400),
        ("PUT", "/v1/groups/g/offsets", {"Content-Type": "text/plain"}, 400),
    ]
    async with besieged(tmp_path) as siege, ClientSession() as session:
        await siege.begin()

        async def send(number: int) -> None:
            method, path, headers, status = wrong[number % len(wrong)]
            url = f"http://127.0.0.1:{siege.daemon.http_port}{path}"
            async with session.request(method, url, headers=headers) as answer:
                assert answer.status == status, (method, path)
                await answer.read()

        await in_turns(REQUESTS, send)
        toll = await siege.toll()
        assert toll.is_bearable(), toll
        refusals = [line for line in siege.daemon.log().splitlines() if "Refused DELETE" in line]
        assert 0 < len(refusals) < 100
