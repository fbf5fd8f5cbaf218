"""The HTTP port under siege: Kafka's clients notice nothing."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.hostile.siege.siege import Siege, besieged
from tests.hostile.test_turns import make_groups
from tests.http.test_http import TIMEOUT_S, Caller, asked, get

HALF: Final = b"GET / HTTP/1.1\r\nHost: localh"
FLOOD: Final = 600
CONNECTIONS: Final = 20
TIMEOUT_MS: Final = 2_000
NEVER_MS: Final = 3_600_000
SCRAPERS: Final = 20
SCRAPES: Final = 2
SCRAPE_MS: Final = 100
"""What a neighbour may wait for everybody's scrapes."""


async def wait_until_closed(caller: Caller) -> None:
    """Wait until the daemon closes a connection, however long it takes."""
    with suppress(ConnectionError):
        await caller.reader.read()


async def is_served(siege: Siege) -> bool:
    """Whether a Kafka client that comes now is answered."""
    client = await siege.attacker.connect()
    answered = await client.call(ListGroupsRequest(), 0)
    return answered is not None and bool(answered.error_code == ErrorCode.NONE)


async def test_half_requests_in_masses(tmp_path: Path) -> None:
    """Nothing but the limit of connections can close one here: no request times out."""
    limits = ("-o", f"http.max.connections={CONNECTIONS}", "-o", f"http.request.timeout.ms={NEVER_MS}")
    async with besieged(tmp_path, limits) as siege, AsyncExitStack() as stack:
        await siege.begin()
        port = siege.daemon.http_port
        open_connections: set[asyncio.Task[None]] = set()
        for number in range(FLOOD):
            caller = await stack.enter_async_context(Caller(port))
            caller.writer.write(HALF)
            open_connections.add(asyncio.create_task(wait_until_closed(caller)))
            if number % 100 == 0:
                assert await is_served(siege)
                assert (await asked(port, get("/metrics")))[0] == 200
        async with asyncio.timeout(TIMEOUT_S):
            while len(open_connections) > CONNECTIONS:
                _, open_connections = await asyncio.wait(
                    open_connections, return_when=asyncio.FIRST_COMPLETED
                )
        assert (await asked(port, get()))[0] == 200
        assert await is_served(siege)
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_half_requests_time_out(tmp_path: Path) -> None:
    limits = ("-o", f"http.max.connections={CONNECTIONS}", "-o", f"http.request.timeout.ms={TIMEOUT_MS}")
    async with besieged(tmp_path, limits) as siege, AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(Caller(siege.daemon.http_port)) for _ in range(CONNECTIONS)
        ]
        for caller in callers:
            caller.writer.write(HALF)
        await asyncio.gather(*(caller.all() for caller in callers))
        assert (await asked(siege.daemon.http_port, get()))[0] == 200
        assert await is_served(siege)


async def test_a_flood_takes_no_descriptors_from_kafkas_clients(tmp_path: Path) -> None:
    async with besieged(tmp_path, module="tests.hostile.few_files") as siege, AsyncExitStack() as stack:
        for _ in range(150):
            caller = await stack.enter_async_context(Caller(siege.daemon.http_port))
            caller.writer.write(HALF)
        for _ in range(20):
            assert await is_served(siege)
        assert "Cannot accept" not in siege.daemon.log()


async def test_many_scrapers_of_many_groups(tmp_path: Path) -> None:
    async with besieged(tmp_path, ["--topic", "orders:1"]) as siege:
        await make_groups(siege.attacker)
        await siege.begin()
        url = f"http://127.0.0.1:{siege.daemon.http_port}"

        async def scrape(session: ClientSession) -> None:
            for path in ["/metrics", "/", "/ready"] * SCRAPES:
                async with session.get(url + path) as answer:
                    assert answer.status == 200
                    await answer.text()

        async with AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(ClientSession()) for _ in range(SCRAPERS)]
            await asyncio.gather(*map(scrape, sessions))
        toll = await siege.toll()
        assert toll.is_bearable(SCRAPE_MS), toll
