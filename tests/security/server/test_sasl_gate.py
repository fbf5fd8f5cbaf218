"""Before a client is let in: the states of a SASL connection over a real socket, and every wrong move."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from coordinator.network.connections import OpenConnection
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.harness import TIMEOUT_S, Client
from tests.security.server.sasl_server import choose, log_in, metric, plain_token, serving_sasl, show

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
WRONG_PLAIN = "Authentication failed: Invalid username or password"
OLDEST, NEWEST = 0, 2


def versions() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="test", client_software_version="1")


async def is_served(client: Client) -> bool:
    return bool((await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.NONE)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("version", [OLDEST, 1, NEWEST])
async def test_who_knows_the_password_is_let_in_and_served(
    tmp_path: Path, mechanism: str, version: int
) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        assert (await client.call(versions(), 4)).error_code == ErrorCode.NONE
        answer = await log_in(client, mechanism=mechanism, version=version)
        assert answer.error_code == ErrorCode.NONE
        assert answer.session_lifetime_ms == 0
        assert await is_served(client)
        assert metric(server, "groupd_successful_authentications_total", mechanism=mechanism) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_a_wrong_password_and_an_unknown_user_are_told_the_same_and_closed(
    tmp_path: Path, mechanism: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "SocketServer")
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        answer = await log_in(client, user, "open-sesame", mechanism)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (WRONG_PLAIN if mechanism == "PLAIN" else GENERIC + mechanism)
        assert answer.auth_bytes == b""
        assert await client.closed()
        assert metric(server, "groupd_failed_authentications_total", mechanism=mechanism) == 1
    told = [record.getMessage() for record in caplog.records if "Failed authentication" in record.message]
    assert len(told) == 1
    assert "127.0.0.1" in told[0]
    assert mechanism in told[0]
    assert "open-sesame" not in caplog.text


async def test_tokens_go_bare_after_an_old_handshake(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        assert (await choose(client, "PLAIN", 0)).error_code == ErrorCode.NONE
        token = plain_token()
        client.writer.write(len(token).to_bytes(4, "big") + token)
        assert await client.receive_frame() == b""
        assert await is_served(client)


async def test_a_bare_token_that_is_wrong_is_answered_by_the_end_alone(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        await choose(client, "PLAIN", 0)
        token = plain_token(password="wrong")
        client.writer.write(len(token).to_bytes(4, "big") + token)
        assert await client.closed()


async def test_a_mechanism_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        answer = await choose(client, "GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == MECHANISMS
        assert await client.closed()


@pytest.mark.parametrize(
    ("first", "version"), [(ListGroupsRequest(), 4), (SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)]
)
async def test_any_other_api_before_the_handshake_is_not_answered(
    tmp_path: Path, first: Any, version: int
) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        client.send(first, version)
        assert await client.closed()


async def test_a_second_api_versions_ends_the_connection(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        await client.call(versions(), 4)
        client.send(versions(), 4)
        assert await client.closed()


async def test_api_versions_that_are_refused_may_be_asked_for_again(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        nameless = ApiVersionsRequest(client_software_name="-", client_software_version="1")
        assert (await client.call(nameless, 4)).error_code == ErrorCode.INVALID_REQUEST
        client.writer.write(b"\0\0\0\x0a\0\x12\x00\x63\0\0\0\x07\xff\xff")
        frame = await client.receive_frame()
        assert frame[:6] == b"\0\0\0\x07\0\x23"
        answer: ApiVersionsResponse = await client.call(versions(), 4)
        assert answer.error_code == ErrorCode.NONE
        assert (await log_in(client)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("request_instead", "version"),
    [
        (ListGroupsRequest(), 4),
        (versions(), 4),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
    ],
)
async def test_another_api_instead_of_a_token_is_answered_in_its_own_form(
    tmp_path: Path, request_instead: Any, version: int
) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        await choose(client, "PLAIN")
        answer = await client.call(request_instead, version)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.closed()


async def test_a_metadata_instead_of_a_token_is_answered_too(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        await choose(client, "PLAIN")
        answer = await client.call(MetadataRequest(topics=None), 12)
        assert answer.brokers == []
        assert await client.closed()


@pytest.mark.parametrize("size", [524_289, -1, 2**31 - 1])
async def test_a_frame_that_is_too_large_ends_the_connection(tmp_path: Path, size: int) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        client.writer.write(size.to_bytes(4, "big", signed=True))
        assert await client.closed()


async def test_requests_that_come_with_the_last_token_are_answered_after_it(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=plain_token()), 2)
        client.send(ListGroupsRequest(), 4)
        client.send(ListGroupsRequest(), 4)
        assert [(await client.receive()).error_code for _ in range(4)] == [0, 0, 0, 0]


async def test_one_byte_after_the_other_is_understood(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        for request, version in (
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=plain_token()), 2),
        ):
            for byte in client.frame(request, version):
                client.writer.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert (await client.receive()).error_code == ErrorCode.NONE
        assert await is_served(client)


async def test_who_sends_byte_by_byte_for_ever_is_cut_off_in_time(tmp_path: Path) -> None:
    async with (
        serving_sasl(tmp_path, {"authentication.timeout.ms": "300"}) as server,
        Client(server) as client,
    ):
        frame = encode_request(17, 1, 1, "slow", SaslHandshakeRequest(mechanism="PLAIN"))
        gone = asyncio.ensure_future(client.closed())
        for byte in frame:
            client.writer.write(bytes([byte]))
            done, _ = await asyncio.wait([gone], timeout=0.1)
            if done:
                break
        assert gone.done()
        assert gone.result()
        assert metric(server, "groupd_failed_authentications_total") == 1


async def test_a_refusal_comes_after_its_delay_and_nothing_is_read_meanwhile(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with (
        serving_sasl(tmp_path, {"connection.failed.authentication.delay.ms": "300"}) as server,
        Client(server) as client,
    ):
        await choose(client, "PLAIN")
        client.send(SaslAuthenticateRequest(auth_bytes=plain_token(password="no")), 2)
        client.send(SaslAuthenticateRequest(auth_bytes=plain_token()), 2)
        started = loop.time()
        assert (await client.receive()).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert loop.time() - started > 0.29
        assert await client.closed()


async def test_a_stop_does_not_wait_for_those_who_authenticate(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    properties = {"connection.failed.authentication.delay.ms": "20000"}
    async with (
        serving_sasl(tmp_path, properties) as server,
        Client(server) as idle,
        Client(server) as refused,
    ):
        await choose(refused, "PLAIN")
        refused.send(SaslAuthenticateRequest(auth_bytes=plain_token(password="no")), 2)
        await choose(idle, "PLAIN")
        started = loop.time()
        await server.close()
        assert loop.time() - started < 3
        assert not server.connections.open
        assert await idle.closed()
        assert await refused.closed()


async def test_a_client_that_goes_while_it_authenticates_is_forgotten(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server:
        async with Client(server) as client:
            await choose(client, "SCRAM-SHA-256")
            client.writer.transport.abort()
        await asyncio.wait_for(server.connections.emptied.wait(), TIMEOUT_S)


async def test_the_limit_of_connections_counts_those_who_authenticate(tmp_path: Path) -> None:
    async with (
        serving_sasl(tmp_path, {"max.connections.per.ip": "2"}) as server,
        Client(server) as one,
        Client(server) as two,
    ):
        await choose(one, "PLAIN")
        await choose(two, "PLAIN")
        async with Client(server) as three:
            assert await three.closed()


async def test_a_plaintext_listener_beside_asks_for_nothing(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(port=server.endpoints[1].port) as client:
        assert await is_served(client)
        assert (await choose(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await show(client, plain_token())).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        b"al\0ice",
        b"al\nice [ERROR] all is lost",
        b"a" * 32_768,
        b"\x1b[2J",
        b"\xff\xfe",
        "Ünal\u202e".encode(),
        b"",
    ],
    ids=["NUL", "newline", "32 kB", "terminal", "no UTF-8", "backwards", "empty"],
)
async def test_a_strange_name_costs_one_connection_and_one_short_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mechanism: str, version: int, name: bytes
) -> None:
    token = b"\0%b\0guess" % name if mechanism == "PLAIN" else b"n,,n=%b,r=abc" % name
    caplog.set_level(logging.INFO, "SocketServer")
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        await choose(client, mechanism, version)
        if version:
            assert (await show(client, token)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        else:
            client.writer.write(len(token).to_bytes(4, "big") + token)
        assert await client.closed()
    (line,) = [text for record in caplog.records if "Failed authentication" in (text := record.getMessage())]
    assert line.isprintable()
    assert len(line) < 300


@pytest.mark.parametrize("ends", ["closes", "resets", "sends on"])
async def test_a_client_that_does_not_wait_for_its_refusal_is_forgotten(tmp_path: Path, ends: str) -> None:
    properties = {"connection.failed.authentication.delay.ms": "300"}
    async with serving_sasl(tmp_path, properties) as server:
        async with Client(server) as client:
            await choose(client, "PLAIN")
            client.send(SaslAuthenticateRequest(auth_bytes=plain_token(password="no")), 2)
            while not metric(server, "groupd_failed_authentications_total"):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
            if ends == "closes":
                client.writer.close()
            elif ends == "resets":
                client.writer.transport.abort()
            else:
                client.writer.write(bytes(1_000_000))
            await asyncio.wait_for(server.connections.emptied.wait(), TIMEOUT_S)
        assert metric(server, "groupd_failed_authentications_total") == 1


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n"])
async def test_what_is_for_another_kind_of_listener_costs_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    caplog.set_level(logging.INFO, "SocketServer")
    async with serving_sasl(tmp_path) as server:
        for endpoint in server.endpoints:
            caplog.clear()
            async with Client(port=endpoint.port) as client:
                client.writer.write(said)
                assert await client.closed()
            assert len(caplog.records) == 1


async def test_a_client_that_comes_when_the_server_stops_is_not_waited_for(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server:
        admit = server.connections.admit
        admitted = asyncio.Event()

        def admit_last(connection: OpenConnection) -> str | None:
            """The listeners close before any handling of the connection begins."""
            server.loop.call_soon(server.listeners.close)
            server.loop.call_soon(admitted.set)
            return admit(connection)

        server.connections.admit = admit_last  # type: ignore[method-assign]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.endpoints[0].port)
        await admitted.wait()
        async with asyncio.timeout(TIMEOUT_S):
            await server.connections.emptied.wait()
            assert await reader.read() == b""
        writer.close()
