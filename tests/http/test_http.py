"""The HTTP port with well-behaved and hostile clients."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import pytest

from coordinator.broker.server_view import ServerView
from coordinator.config.listeners import Address
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.core.daemon_log import LINES_PER_PERIOD
from coordinator.http.http_access import HttpLimits, create_control_access
from coordinator.http.http_server import HttpServer
from coordinator.network.listening_socket import HTTP_OPTION, bind_sockets
from tests.broker.harness import serving

TIMEOUT_S: Final = 60
PATIENT_MS: Final = 60_000
HASTY_MS: Final = 300


@asynccontextmanager
async def console(
    directory: Path, *, host: str = "127.0.0.1", most: int = 100, timeout_ms: int = PATIENT_MS
) -> AsyncIterator[int]:
    """The port of a server's console."""
    async with serving(directory) as server:
        sockets = bind_sockets(Address(host, 0), 128, HTTP_OPTION)
        limits = HttpLimits(http_max_connections=most, http_request_timeout_ms=timeout_ms)
        access = create_control_access(server.settings.config, host, sockets, server.settings.files)
        http = HttpServer(ServerView(server), LazyControlPlane(server), sockets, access, limits)
        http.start()
        yield sockets[0].getsockname()[1]
        http.close()


class Caller:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def all(self) -> bytes:
        """What comes until the connection ends."""
        try:
            return await asyncio.wait_for(self.reader.read(), TIMEOUT_S)
        except ConnectionError:
            return b""

    async def says(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.all()


def get(path: str = "/health", host: str = "localhost", *more: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", *more, "", ""]).encode()


async def asked(port: int, data: bytes) -> tuple[int, str]:
    """The status and the text of an answer."""
    async with Caller(port) as caller:
        head, _, body = (await caller.says(data)).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


OWN = [
    "localhost",
    "localhost:9080",
    "127.0.0.1",
    "127.8.8.8:1",
    "[::1]:9080",
    "LOCALHOST.",
    "groupd.localhost",
]
FOREIGN = [
    "evil.example",
    "evil.example:9080",
    "10.0.0.1",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "[::2]",
]


@pytest.mark.parametrize("path", ["/", "/ready", "/metrics", "/nothing"])
async def test_a_port_of_this_machine_answers_no_foreign_host(tmp_path: Path, path: str) -> None:
    async with console(tmp_path) as port:
        for host in FOREIGN:
            status, text = await asked(port, get(path, host))
            assert status == 421, host
            assert len(text.splitlines()) == 1
            assert "groupd" not in text
        for host in OWN:
            assert (await asked(port, get(path, host)))[0] == (404 if path == "/nothing" else 200), host


async def test_a_port_for_everybody_answers_by_any_name(tmp_path: Path) -> None:
    for own_host in ("0.0.0.0", "::"):
        async with console(tmp_path / own_host, host=own_host) as port:
            for host in (*OWN, *FOREIGN):
                assert (await asked(port, get("/health", host)))[0] == 200, host


async def test_only_old_clients_may_leave_the_host_out(tmp_path: Path) -> None:
    async with console(tmp_path) as port:
        assert (await asked(port, b"GET /health HTTP/1.0\r\n\r\n"))[0] == 200
        assert (await asked(port, b"GET /health HTTP/1.1\r\n\r\n"))[0] == 400
        assert (await asked(port, get("/health", "localhost", "Host: evil.example")))[0] == 400


NO_REQUESTS: Final = {
    "garbage": bytes(range(128, 256)) * 3 + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "Kafka": bytes.fromhex("0000001000120000000000010006636c69656e74"),
    "unknown method": b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "method that is not for this": b"DELETE /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "long line": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "long header": get("/", "localhost", "X: " + "a" * 100_000),
    "many headers": get("/", "localhost", *["X: a"] * 10_000),
    "strange version": b"GET / HTTP/9.9\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a zero byte": b"GET /\0 HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    "steering a terminal": b"GET /\x1b[31m HTTP/1.1\r\nHost: \x1b[31m\r\n\r\n",
    "address that is none": b"GET http://[::1 HTTP/1.1\r\nHost: [::\r\n\r\n",
    "length that is none": get("/", "localhost", "Content-Length: x"),
    "two lengths": get("/", "localhost", "Content-Length: 3", "Transfer-Encoding: chunked"),
    "huge body": get("/", "localhost", "Content-Length: 1000000000000"),
    "chunk that is none": get("/", "localhost", "Transfer-Encoding: chunked") + b"zz\r\n",
    "packed body": get("/", "localhost", "Content-Encoding: gzip", "Content-Length: 5") + b"abcde",
    "expectation": get("/", "localhost", "Expect: much"),
    "tunnel": b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("data", NO_REQUESTS.values(), ids=NO_REQUESTS.keys())
async def test_what_is_no_request_is_refused_in_a_line(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with console(tmp_path, timeout_ms=HASTY_MS) as port:
        async with Caller(port) as caller:
            answer = await caller.says(data)
            assert not answer or 400 <= int(answer.split()[1]) < 500
        assert (await asked(port, get()))[0] == 200
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(records) <= 1
    for record in records:
        assert record.exc_info is None
        assert record.getMessage().isprintable()


async def test_a_flood_of_it_is_told_in_a_few_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with console(tmp_path) as port:
        for _ in range(3 * LINES_PER_PERIOD):
            async with Caller(port) as caller:
                assert await caller.says(b"\0\0\r\n\r\n")
    assert 0 < sum("HTTP" in record.getMessage() for record in caplog.records) <= 2 * LINES_PER_PERIOD


async def test_a_request_that_comes_byte_by_byte_is_cut_off(tmp_path: Path) -> None:
    async with console(tmp_path, timeout_ms=HASTY_MS) as port, Caller(port) as slow:
        assert (await asked(port, get()))[0] == 200
        slow.writer.write(b"GET / HTTP/1.1\r\nX: ")
        ended = asyncio.ensure_future(slow.all())
        while not ended.done():
            slow.writer.write(b"a")
            await asyncio.wait([ended], timeout=0.05)
        assert not ended.result()


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with console(tmp_path) as port, Caller(port) as caller:
        kept = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answers = await caller.says(kept % b"health" * 50 + kept % b"metrics" + get("/nothing"))
        assert answers.count(b"HTTP/1.1 200") == 51
        assert answers.rindex(b"groupd_groups") < answers.index(b"HTTP/1.1 404")


async def test_whoever_asks_finds_a_place_among_the_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with console(tmp_path, most=3) as port:
        silent = [await Caller(port).__aenter__() for _ in range(12)]
        for _ in range(5):
            assert (await asked(port, get("/metrics")))[0] == 200
        for caller in silent[:9]:
            assert await caller.all() == b""
        for caller in silent:
            await caller.__aexit__()
    assert any("http.max.connections" in record.getMessage() for record in caplog.records)


async def test_an_answer_that_is_not_read_costs_its_connection(tmp_path: Path) -> None:
    async with console(tmp_path, timeout_ms=HASTY_MS) as port, Caller(port) as deaf:
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            while True:
                deaf.writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
                await asyncio.wait_for(deaf.writer.drain(), TIMEOUT_S)
        except ConnectionError:
            pass
        assert (await asked(port, get()))[0] == 200


async def test_ready_names_the_partitions_that_are_offline(tmp_path: Path) -> None:
    """The daemon serves everything else: it is ready, and names the incomplete topic with the reason."""
    async with console(tmp_path) as port:
        assert await asked(port, get("/ready")) == (200, "ready\n")
    for number in (0, 2):
        log = tmp_path / f"orders-{number}" / f"{0:020d}.log"
        log.unlink()
        log.mkdir()
    async with console(tmp_path) as port:
        status, text = await asked(port, get("/ready"))
        ready, offline = text.splitlines()
        assert (status, ready) == (200, "ready")
        assert "orders-0, orders-2" in offline
        assert "orders-1" not in offline
        assert "is a directory" in offline
