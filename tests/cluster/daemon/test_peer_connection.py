"""An inter-broker connection: the broker authenticates its peer and verifies it before the first request."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.cluster.daemon.inter_broker_sender import (
    PeerAuthenticationFailed,
    PeerConnection,
    PeerSecurity,
    RequestUnanswered,
)
from coordinator.config.listener_settings import TlsSettings
from coordinator.security.core.sasl_login import Login
from coordinator.security.server.tls_context import read_client_context
from protocol.messages.find_coordinator import FindCoordinatorRequest
from storage.files import OsFiles
from tests.broker.harness import serving, settings
from tests.cluster.daemon.secured import HOSTS, by_certificate
from tests.security.server.certificates import Identity
from tests.security.server.sasl_server import PASSWORD, serving_sasl

ALICE = Login("PLAIN", "alice", PASSWORD)
SSL = {"listeners": "SSL://127.0.0.1:0"}


@asynccontextmanager
async def peer(
    server: Server, login: Login | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[Any]:
    """Return a function that requests the coordinator of a group from the first listener of a server."""
    opened = PeerConnection("test", PeerSecurity(lambda: context, login))
    address = ("127.0.0.1", server.endpoints[0].port)
    try:
        yield lambda: opened.send_request(address, FindCoordinatorRequest(key="g"), 3)
    finally:
        opened.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_who_knows_the_password_is_answered(tmp_path: Path, mechanism: str) -> None:
    login = Login(mechanism, "alice", PASSWORD)
    async with serving_sasl(tmp_path) as server, peer(server, login) as ask:
        for _ in range(3):
            assert (await ask()).node_id == 1
        assert server.metrics.authentications.succeeded["SASL_PLAINTEXT", mechanism] == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OTHER"])
async def test_who_does_not_is_not_let_in(tmp_path: Path, mechanism: str) -> None:
    wrong = Login("SCRAM-SHA-512" if mechanism == "OTHER" else mechanism, "alice", "wrong-secret")
    few = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    async with serving_sasl(tmp_path, few) as server, peer(server, wrong) as ask:
        for _ in range(2):
            with pytest.raises(PeerAuthenticationFailed) as error:
                await ask()
            assert "wrong-secret" not in str(error.value)


async def test_a_login_at_a_listener_without_sasl_is_not_let_in() -> None:
    async with serving() as server, peer(server, ALICE) as ask:
        with pytest.raises(PeerAuthenticationFailed):
            await ask()


async def test_a_session_that_ends_is_never_noticed(tmp_path: Path) -> None:
    # A sender logs in again when 15 % of its session are left: the time by which this process may be late.
    short = {"connections.max.reauth.ms": "2000"}
    async with serving_sasl(tmp_path, short) as server, peer(server, ALICE) as ask:
        counts = server.metrics.authentications
        while counts.succeeded["SASL_PLAINTEXT", "PLAIN"] < 3:
            assert (await ask()).node_id == 1
            await asyncio.sleep(0.01)
        assert counts.expired_connections == 0


# TLS


def tls(stores: dict[str, str], **more: str) -> TlsSettings:
    """As a broker with these stores has it."""
    found = settings("", {**SSL, **stores, **more}).security["SSL"].tls
    assert found is not None
    return found


def context(stores: dict[str, str], **more: str) -> ssl.SSLContext:
    return read_client_context(tls(stores, **more), OsFiles())


async def test_a_certificate_has_to_be_of_the_host_unless_hosts_are_not_looked_at(tmp_path: Path) -> None:
    authority = Identity.authority()
    stores = by_certificate(tmp_path / "stores", authority.sign("CN=b", ("elsewhere.example",)), authority)
    name = "ssl.endpoint.identification.algorithm"
    async with serving(tmp_path / "data", SSL | stores) as server:
        async with peer(server, context=context(stores, **{name: ""})) as ask:
            assert (await ask()).node_id == 1
        for more in ({}, {name: "HTTPS"}):
            async with peer(server, context=context(stores, **more)) as ask:
                with pytest.raises(PeerAuthenticationFailed):
                    await ask()


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
async def test_both_sides_have_to_trust_each_other(tmp_path: Path, versions: str) -> None:
    authority, stranger = Identity.authority(), Identity.authority("CN=stranger")
    known, unknown = authority.sign("CN=b", HOSTS), stranger.sign("CN=b", HOSTS)
    stores = by_certificate(tmp_path / "stores", known, authority)
    cases = [(known, authority, True), (known, stranger, False), (unknown, authority, False)]
    more = {"ssl.enabled.protocols": versions}
    async with serving(tmp_path / "data", SSL | stores | more) as server:
        for number, (shown, trusted, is_let_in) in enumerate(cases):
            own = by_certificate(tmp_path / str(number), shown, trusted)
            async with peer(server, context=context(own, **more)) as ask:
                if is_let_in:
                    assert (await ask()).node_id == 1
                    continue
                with pytest.raises(PeerAuthenticationFailed):
                    await ask()


async def test_a_broker_that_speaks_something_else_is_left(tmp_path: Path) -> None:
    authority = Identity.authority()
    stores = by_certificate(tmp_path / "stores", authority.sign("CN=b", HOSTS), authority)
    async with serving(tmp_path / "plain") as server, peer(server, context=context(stores)) as ask:
        with pytest.raises(RequestUnanswered):
            await ask()
    async with serving(tmp_path / "data", SSL | stores) as server, peer(server) as ask:
        with pytest.raises(RequestUnanswered):
            await ask()
