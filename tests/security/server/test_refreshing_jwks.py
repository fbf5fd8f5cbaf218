"""The keys of an identity provider: groupd fetches them before the first client, and keeps them up to date after
failures."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from coordinator.core.message_text import StartFailed
from coordinator.security.server import refreshing_jwks
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.harness import TIMEOUT_S, Client
from tests.free_ports import free_ports
from tests.security.core.tokens import EC, OTHER_RSA, client_first, jwks, signed
from tests.security.server.identity_provider import (
    ENDPOINT,
    Provider,
    claims,
    good_token,
    is_let_in,
    log_in,
    secured,
)
from tests.security.server.sasl_server import choose, metric, serving_sasl, show

INVALID = b'{"status":"invalid_token"}'


def new_token(sub: str = "alice", life_s: float = 3600) -> str:
    """One that is signed with a key which was not published at first."""
    return signed(EC, claims(sub, life_s), "ES256")


async def is_served(client: Client) -> bool:
    return bool((await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.NONE)


async def why_not(directory: Path, url: str) -> str:
    """Why a server does not start."""
    with pytest.raises(StartFailed) as failure:
        async with serving_sasl(directory, secured(url)):
            pass
    reason = str(failure.value)
    assert reason.startswith(f"the listener SASL_PLAINTEXT, {ENDPOINT}: ")
    assert reason.isprintable()
    return reason


@pytest.fixture
def short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ten seconds."""
    monkeypatch.setattr(refreshing_jwks, "TIMEOUT_S", 0.2)


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch keys whenever one is missing, without a minimum interval."""
    monkeypatch.setattr(refreshing_jwks, "MIN_INTERVAL_NS", 0)


# The start


async def test_keys_come_by_http_from_this_machine(tmp_path: Path) -> None:
    async with Provider() as provider, serving_sasl(tmp_path, secured(provider.url)) as server:
        assert provider.asked == 1
        assert await is_let_in(server, good_token())
        assert not await is_let_in(server, signed(OTHER_RSA, claims()))
        assert provider.asked == 1


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ({"status": 500}, "500"),
        ({"status": 302, "headers": {"Location": "/other"}}, "302"),
        ({"document": b"<html>"}, "JSON"),
        ({"document": b'{"keys":[]}'}, "none of the 0"),
        ({"document": b" " * (1024 * 1024 + 1)}, "1048576 bytes"),
        ({"headers": {"Content-Encoding": "gzip"}, "document": b"\x1f\x8b"}, "JSON"),
    ],
)
async def test_what_is_published_badly_ends_the_start(
    tmp_path: Path, what: dict[str, Any], word: str
) -> None:
    async with Provider() as provider:
        vars(provider).update(what)
        assert word in await why_not(tmp_path, provider.url)
        assert provider.asked == 1


@pytest.mark.usefixtures("short_time")
async def test_a_provider_that_does_not_answer_ends_the_start(tmp_path: Path) -> None:
    async with Provider() as provider:
        provider.is_open.clear()
        assert "within 0.2 s" in await why_not(tmp_path, provider.url)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://id.example/keys", "http:"),
        ("http://127.0.0.1.id.example/keys", "http:"),
        ("https://id.example:99999/keys", "URL"),
        ("file:keys", "no such file"),
        ("file://other/keys", "this machine"),
        ("file:///no/such/keys.json", "no such file"),
        ("file:///dev", "directory"),
    ],
)
async def test_an_address_that_has_no_keys_ends_the_start(tmp_path: Path, url: str, word: str) -> None:
    assert word in await why_not(tmp_path, url)


async def test_a_provider_that_is_down_ends_the_start_and_no_password_is_told(tmp_path: Path) -> None:
    reason = await why_not(tmp_path, f"http://user:secret@127.0.0.1:{free_ports(1)[0]}/keys?token=secret")
    assert "onnect" in reason
    assert "secret" not in reason


# Later


async def test_keys_are_read_anew_and_a_provider_that_is_down_has_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    times = {
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "20",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "20",
    }
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, {**secured(provider.url), **times}) as server,
    ):
        await provider.until_asked(4)
        provider.status = 503
        await provider.until_asked(provider.asked + 5)
        assert await is_let_in(server, good_token())
        provider.status, provider.document = 200, json.dumps(jwks(EC)).encode()
        await provider.until_asked(provider.asked + 2)
        assert await is_let_in(server, new_token())
        assert not await is_let_in(server, good_token())
    lines = [each for each in caplog.records if each.name == "OAUTHBEARER"]
    assert [each.levelname for each in lines] == ["ERROR", "INFO"]
    assert ENDPOINT in lines[0].getMessage()
    assert "503" in lines[0].getMessage()


async def test_keys_are_read_anew_when_certificates_are(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(jwks(OTHER_RSA)))
    async with serving_sasl(tmp_path / "data", secured(file.as_uri())) as server:
        assert not await is_let_in(server, good_token())
        async with Provider() as provider:
            file.write_bytes(provider.document)
        await server.listeners.reload()
        assert await is_let_in(server, good_token())


async def test_a_key_that_is_new_is_asked_for_at_once_but_not_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Provider() as provider, serving_sasl(tmp_path, secured(provider.url)) as server:
        provider.document = json.dumps(jwks(EC)).encode()
        assert not await is_let_in(server, new_token()), "the start has just asked"
        assert provider.asked == 1
        monkeypatch.setattr(refreshing_jwks, "MIN_INTERVAL_NS", 0)
        assert await is_let_in(server, new_token())
        assert provider.asked == 2
        monkeypatch.undo()
        for _ in range(3):
            assert not await is_let_in(server, signed(EC, claims(), "ES256", kid="another"))
        assert provider.asked == 2


@pytest.mark.usefixtures("no_interval", "short_time")
@pytest.mark.parametrize("status", [200, 500])
async def test_keys_that_do_not_come_cost_only_the_token_that_needs_them(tmp_path: Path, status: int) -> None:
    async with Provider() as provider, serving_sasl(tmp_path, secured(provider.url)) as server:
        provider.status = status
        if status == 200:
            provider.is_open.clear()
        assert not await is_let_in(server, new_token())
        assert await is_let_in(server, good_token())


# Whoever waits meanwhile


async def show_new_token(client: Client, *more: tuple[Any, int]) -> None:
    """A client shows a token with a new key, and sends more behind it: requests, each with its version."""
    client.send(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    client.send(SaslAuthenticateRequest(auth_bytes=client_first(new_token())), 2)
    for request, version in more:
        client.send(request, version)
    assert (await client.receive()).error_code == ErrorCode.NONE


async def until_waiting(provider: Provider, client: Client, *more: tuple[Any, int]) -> None:
    """The same, but wait until the provider has a pending request."""
    provider.is_open.clear()
    provider.document = json.dumps(jwks(EC)).encode()
    asked = provider.asked
    await show_new_token(client, *more)
    await provider.until_asked(asked + 1)


@pytest.mark.usefixtures("no_interval")
async def test_others_go_on_while_one_waits_and_what_it_has_sent_is_answered_after(tmp_path: Path) -> None:
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, secured(provider.url)) as server,
        Client(server) as client,
    ):
        await until_waiting(provider, client, (ListGroupsRequest(), 4), (ListGroupsRequest(), 4))
        assert await is_let_in(server, good_token())
        with pytest.raises(TimeoutError):
            await client.receive_frame(0.1)
        provider.is_open.set()
        answers = [await client.receive() for _ in range(3)]
        assert [each.error_code for each in answers] == [0, 0, 0]
        assert answers[0].auth_bytes == b""


@pytest.mark.usefixtures("no_interval")
async def test_many_that_wait_wait_for_one_fetch(tmp_path: Path) -> None:
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, secured(provider.url)) as server,
        AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(Client(server)) for _ in range(20)]
        await until_waiting(provider, clients[0])
        for client in clients[1:]:
            await show_new_token(client)
        provider.is_open.set()
        assert [(await client.receive()).auth_bytes for client in clients] == [b""] * 20
        assert provider.asked == 2


@pytest.mark.usefixtures("no_interval")
@pytest.mark.parametrize("is_again", [False, True])
async def test_a_client_that_goes_while_it_waits_is_forgotten(
    tmp_path: Path, is_again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with Provider() as provider, serving_sasl(tmp_path, secured(provider.url)) as server:
        async with Client(server) as client:
            if is_again:
                assert (await log_in(client, good_token())).auth_bytes == b""
            await until_waiting(provider, client)
        await asyncio.wait_for(server.connections.emptied.wait(), TIMEOUT_S)
        provider.is_open.set()
        assert await is_let_in(server, new_token())
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.usefixtures("no_interval")
async def test_who_waits_for_too_long_is_cut_off_in_time(tmp_path: Path) -> None:
    properties = {"authentication.timeout.ms": "300"}
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, {**secured(provider.url), **properties}) as server,
        Client(server) as client,
    ):
        await until_waiting(provider, client)
        assert await client.closed()
        assert metric(server, "groupd_failed_authentications_total") == 1


@pytest.mark.usefixtures("no_interval")
async def test_who_sends_on_and_on_while_it_waits_is_not_read(tmp_path: Path) -> None:
    properties = {"sasl.server.max.receive.size": "10000"}
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, {**secured(provider.url), **properties}) as server,
        Client(server) as client,
    ):
        await until_waiting(provider, client)
        client.writer.write(bytes(16 * 1024 * 1024))
        before, left = -1, client.writer.transport.get_write_buffer_size()
        while left != before:
            await asyncio.sleep(0.3)
            before, left = left, client.writer.transport.get_write_buffer_size()
        assert left > 8 * 1024 * 1024
        provider.is_open.set()
        assert await is_let_in(server, new_token())


@pytest.mark.usefixtures("no_interval")
async def test_a_stop_does_not_wait_for_a_provider(tmp_path: Path) -> None:
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, secured(provider.url)) as server,
        Client(server) as client,
    ):
        await until_waiting(provider, client)
        started = asyncio.get_running_loop().time()
        await server.close()
        assert asyncio.get_running_loop().time() - started < 3
        assert not server.connections.open


# Sessions


@pytest.mark.usefixtures("no_interval")
async def test_a_client_shows_a_new_token_and_goes_on(tmp_path: Path) -> None:
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, secured(provider.url)) as server,
        Client(server) as client,
    ):
        assert (await log_in(client, good_token(life_s=600))).session_lifetime_ms <= 600_000
        await until_waiting(provider, client, (ListGroupsRequest(), 4))
        assert await is_let_in(server, good_token())
        provider.is_open.set()
        answer = await client.receive()
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert answer.session_lifetime_ms > 3_500_000
        assert (await client.receive()).error_code == ErrorCode.NONE
        assert await is_served(client)
        assert metric(server, "groupd_successful_reauthentications_total", mechanism="OAUTHBEARER") == 1


@pytest.mark.usefixtures("no_interval")
@pytest.mark.parametrize("make", [good_token, new_token])
async def test_nobody_becomes_somebody_else(tmp_path: Path, make: Any) -> None:
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, secured(provider.url)) as server,
        Client(server) as client,
    ):
        await log_in(client, good_token())
        provider.document = json.dumps(jwks(EC)).encode()
        answer = await log_in(client, make("bob"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert await client.closed()


async def test_a_request_after_the_end_of_its_token_ends_the_connection(tmp_path: Path) -> None:
    async with Provider() as provider, serving_sasl(tmp_path, secured(provider.url)) as server:
        async with Client(server) as client:
            # Good for as long as the clocks may differ.
            assert (await log_in(client, good_token(life_s=-5))).session_lifetime_ms == 0
            client.send(ListGroupsRequest(), 4)
            assert await client.closed()
        assert metric(server, "groupd_expired_connections_killed_total") == 1


async def test_an_invalid_token_the_second_time_ends_the_connection(tmp_path: Path) -> None:
    async with (
        Provider() as provider,
        serving_sasl(tmp_path, secured(provider.url)) as server,
        Client(server) as client,
    ):
        await log_in(client, good_token())
        await choose(client, "OAUTHBEARER")
        assert (await show(client, client_first("x.y.z"))).auth_bytes == INVALID
        answer = await show(client, b"\x01")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == INVALID.decode()
        assert await client.closed()
