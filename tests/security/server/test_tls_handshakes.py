"""TLS listeners over real sockets: accepted clients, their principals, and failed handshakes."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from coordinator.http.metric_collectors import ServerMetricsCollector
from coordinator.network import tls_handshakes
from coordinator.security.core.principal import ANONYMOUS, USER, Principal
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import TIMEOUT_S, Client, read_metrics, serving
from tests.security.server.certificates import Identity, listener, trusting

AUTHORITY = Identity.authority()
SERVER = AUTHORITY.sign("CN=localhost", ("localhost", "127.0.0.1"))
ALICE = AUTHORITY.sign("CN=alice,OU=billing,O=Example")
STRANGER = Identity.authority("CN=another").sign("CN=mallory")


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """The key store of the server, and a truststore with the authority."""
    key_store, trust_store = tmp_path / "server.pem", tmp_path / "authority.pem"
    key_store.write_text(SERVER.pem)
    trust_store.write_text(AUTHORITY.certificate_pem)
    return key_store, trust_store


@asynccontextmanager
async def listening(tmp_path: Path, properties: dict[str, str]) -> AsyncIterator[Server]:
    async with serving(tmp_path / "data", properties) as server:
        yield server


async def is_served(client: Client) -> bool:
    return bool((await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE)


def principals(server: Server) -> list[Principal]:
    return [connection.client.principal for connection in server.connections.open]


def failures(server: Server) -> dict[str, float]:
    """What /metrics counts of handshakes that failed, by reason."""
    return {
        sample.labels["reason"]: sample.value
        for family in ServerMetricsCollector(read_metrics(server)).collect()
        for sample in family.samples
        if sample.name == "groupd_failed_handshakes_total"
    }


async def until(holds: Callable[[], bool]) -> None:
    """Waits for something that other tasks bring about."""
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - a listener has no event for this state
            await asyncio.sleep(0.01)


async def failed(server: Server, reason: str, count: int = 1) -> None:
    """Wait until `count` handshakes have failed for a reason and no connection is open."""
    await until(lambda: failures(server) == {reason: count} and not server.connections.open)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "TLS handshake" in each.getMessage()]


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


# Who gets in


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_is_who_its_certificate_says(
    tmp_path: Path, stores: tuple[Path, Path], version: ssl.TLSVersion
) -> None:
    tls = ALICE.client(AUTHORITY, version=version)
    async with listening(tmp_path, listener(*stores)) as server, Client(server, tls=tls) as client:
        assert await is_served(client)
        assert principals(server) == [Principal(USER, "CN=alice,OU=billing,O=Example")]


async def test_a_client_without_a_certificate_is_nobody(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    for properties in (listener(stores[0]), listener(*stores, client_auth="requested")):
        async with (
            listening(tmp_path, properties) as server,
            Client(server, tls=trusting(AUTHORITY)) as client,
        ):
            assert await is_served(client)
            assert principals(server) == [ANONYMOUS]


async def test_rules_say_who_a_certificate_is(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    rules = "RULE:CN=([^,]+),OU=billing.*/$1/U"
    properties = listener(*stores, principal_mapping_rules=rules)
    async with listening(tmp_path, properties) as server:
        async with Client(server, tls=ALICE.client(AUTHORITY)) as client:
            assert await is_served(client)
            assert principals(server) == [Principal(USER, "ALICE")]
        async with Client(server, tls=AUTHORITY.sign("CN=bob").client(AUTHORITY)) as client:
            assert await client.closed()
        await failed(server, "principal")
        (line,) = lines(caplog)
        assert "ssl.principal.mapping.rules" in line
        assert "127.0.0.1" in line


async def test_what_is_large_comes_through(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    tls = trusting(AUTHORITY)
    async with listening(tmp_path, listener(stores[0])) as server, Client(server, tls=tls) as client:
        for _ in range(500):
            client.send(ListGroupsRequest(), 0)
        for _ in range(500):
            assert (await client.receive()).error_code == ErrorCode.NONE


async def test_only_the_versions_and_suites_of_the_properties_are_spoken(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    async with listening(tmp_path, listener(stores[0], cipher_suites=suite)) as server:
        async with Client(server, tls=trusting(AUTHORITY)) as client:
            assert await is_served(client)
            assert client.writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        tls = trusting(AUTHORITY)
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
        tls.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises(OSError):  # noqa: PT011 - alert or reset, as the loop has it
            await Client(server, tls=tls).__aenter__()
        await failed(server, "cipher")
    async with listening(tmp_path, listener(stores[0], enabled_protocols="TLSv1.3")) as server:
        tls = trusting(AUTHORITY)
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError):  # noqa: PT011
            await Client(server, tls=tls).__aenter__()
        await failed(server, "version")
    assert "ssl.cipher.suites" in lines(caplog)[0]
    assert "ssl.enabled.protocols" in lines(caplog)[1]


# Who does not


async def rejected(server: Server, tls: ssl.SSLContext) -> None:
    """Expect that the server rejects a client in the handshake or, with TLS 1.3, right after it."""
    with contextlib.suppress(OSError):
        async with Client(server, tls=tls) as client, asyncio.timeout(TIMEOUT_S):
            assert not await client.reader.read(1)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("client", "reason", "said"),
    [
        (None, "no-certificate", "ssl.client.auth=required"),
        (STRANGER, "certificate", "unable to get local issuer certificate"),
        (AUTHORITY.sign("CN=late", days=-1), "certificate", "expired"),
    ],
    ids=["none", "foreign", "expired"],
)
async def test_a_client_that_shows_no_good_certificate_is_sent_away_with_a_line(
    tmp_path: Path,
    stores: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
    version: ssl.TLSVersion,
    client: Identity | None,
    reason: str,
    said: str,
) -> None:
    tls = trusting(AUTHORITY) if client is None else client.client(AUTHORITY)
    tls.minimum_version = tls.maximum_version = version
    async with listening(tmp_path, listener(*stores)) as server:
        await rejected(server, tls)
        await failed(server, reason)
        (line,) = lines(caplog)
        assert said in line
        assert "(SSL, TLS handshake)" in line
        assert "127.0.0.1:" in line


async def test_a_client_that_does_not_trust_the_listener_is_told_of(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    def shake(port: int) -> None:
        # The clients of asyncio do not say why they go.
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain:
            trusting(STRANGER).wrap_socket(plain, server_hostname="localhost")

    async with listening(tmp_path, listener(stores[0])) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(shake, server.endpoints[0].port)
        await failed(server, "not-trusted")
        assert "does not trust" in lines(caplog)[0]


@pytest.mark.parametrize(
    "said", [b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\0\0\0\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\x80"]
)
async def test_bytes_that_are_no_tls_cost_one_line(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    async with listening(tmp_path, listener(stores[0])) as server:
        async with Client(server) as client:
            client.writer.write(said)
            assert await client.closed()
        await failed(server, "plaintext")
        assert "does not use TLS" in lines(caplog)[0]


async def test_broken_records_cost_one_line(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tmp_path, listener(stores[0])) as server:
        async with Client(server) as client:
            client.writer.write(b"\x16\x03\x01\x00\x05" + b"\xff" * 5)
            await client.reader.read(100)
            assert await client.closed()
        await until(lambda: bool(failures(server)) and not server.connections.open)
        assert len(lines(caplog)) == 1


async def test_a_flood_of_failures_is_summed_up(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tmp_path, listener(stores[0])) as server:
        for _ in range(50):
            async with Client(server) as client:
                client.writer.write(b"no TLS")
                assert await client.closed()
        await failed(server, "plaintext", 50)
        assert len(lines(caplog)) == 20


# Who says nothing, or not all


async def test_a_client_that_leaves_without_a_word_is_no_failure(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tmp_path, listener(stores[0])) as server:
        async with Client(server):
            await until(lambda: bool(server.connections.open))
        await until(lambda: not server.connections.open)
        assert failures(server) == {}
        assert lines(caplog) == []


def hello() -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(AUTHORITY).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("said", [b"", hello()[:20], hello()], ids=["nothing", "half a message", "a message"])
async def test_a_client_that_does_not_go_on_is_cut_off(
    tmp_path: Path, stores: tuple[Path, Path], caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    properties = listener(stores[0]) | {"authentication.timeout.ms": "300"}
    async with listening(tmp_path, properties) as server:
        async with Client(server) as client:
            client.writer.write(said)
            async with asyncio.timeout(TIMEOUT_S):
                while await client.reader.read(4096):
                    pass
        await failed(server, "timeout")
        assert "longer than 0.3 s (authentication.timeout.ms)" in lines(caplog)[0]


@pytest.mark.parametrize("said", [b"", hello()], ids=["nothing", "half a handshake"])
async def test_a_neighbour_of_many_that_do_not_go_on_is_served(
    tmp_path: Path, stores: tuple[Path, Path], said: bytes
) -> None:
    count = 1000 if not said else 3 * tls_handshakes.MAX_CONCURRENT
    async with listening(tmp_path, listener(stores[0])) as server, AsyncExitStack() as stack:
        early = await stack.enter_async_context(Client(server, tls=trusting(AUTHORITY)))
        for _ in range(count):
            silent = await stack.enter_async_context(Client(server))
            silent.writer.write(said)
        while len(server.connections.open) <= count:
            assert await is_served(early)
        async with Client(server, tls=trusting(AUTHORITY)) as late:
            assert await is_served(late)
        assert await is_served(early)
    assert not server.connections.open


async def test_of_too_many_half_handshakes_the_oldest_end(
    tmp_path: Path,
    stores: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_handshakes, "MAX_STARTED", 3)
    monkeypatch.setattr(tls_handshakes, "MIN_DURATION_S", 0.01)
    async with listening(tmp_path, listener(stores[0])) as server, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(Client(server)) for _ in range(5)]
        for each in silent:
            each.writer.write(hello())
            await each.reader.read(1)
        async with Client(server, tls=trusting(AUTHORITY)) as late:
            assert await is_served(late)
            for each in silent[:3]:
                async with asyncio.timeout(TIMEOUT_S):
                    while await each.reader.read(4096):
                        pass
            assert await is_served(late)
        await until(lambda: failures(server) == {"timeout": 3})
        assert "too many later handshakes" in lines(caplog)[0]


async def test_the_limit_of_connections_counts_those_who_shake_hands(
    tmp_path: Path, stores: tuple[Path, Path]
) -> None:
    properties = listener(stores[0]) | {"max.connections.per.ip": "2"}
    async with listening(tmp_path, properties) as server, Client(server) as one, Client(server) as two:
        one.writer.write(hello())
        await until(lambda: len(server.connections.open) == 2)
        async with Client(server) as three:
            assert await three.closed()
        two.writer.close()
        await until(lambda: len(server.connections.open) == 1)
        async with Client(server, tls=trusting(AUTHORITY)) as three:
            assert await is_served(three)


async def test_a_stop_waits_for_no_handshake(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        async with listening(tmp_path, listener(stores[0])) as server:
            for said in (b"", hello()) * 5:
                silent = await stack.enter_async_context(Client(server))
                silent.writer.write(said)
            await until(lambda: len(server.connections.open) == 10)
            began_s = loop.time()
        assert loop.time() - began_s < 4, "a handshake is waited for 5 s"
        assert not server.connections.open


async def test_handshakes_that_come_together_are_all_done(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    tls = trusting(AUTHORITY)
    async with listening(tmp_path, listener(stores[0])) as server, AsyncExitStack() as stack:
        clients = [Client(server, tls=tls) for _ in range(2 * tls_handshakes.MAX_CONCURRENT)]
        await asyncio.gather(*(stack.enter_async_context(client) for client in clients))
        assert all(await asyncio.gather(*map(is_served, clients)))
