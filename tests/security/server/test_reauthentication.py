"""Sessions that end, and clients that authenticate again (KIP-368), over a real socket."""

import asyncio
from pathlib import Path

import pytest

from coordinator.control.control_plane import ControlPlane
from coordinator.core import clock
from coordinator.security.server import sasl_gate
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request
from tests.control.faults.lab import Lab
from tests.security.server.sasl_server import (
    PASSWORD,
    choose,
    log_in,
    metric,
    plain_token,
    serving_sasl,
    show,
)
from tests.security.server.test_tls_handshakes import until

LONG = {"connections.max.reauth.ms": "3600000"}
SESSION_NS = 3_600_000 * 1_000_000


class ShiftedClock:
    """A clock for connections with SASL that stands still or is ahead, however fast a machine is."""

    def __init__(self) -> None:
        self.ahead_ns = 0
        self.is_stopped = False
        self._start_ns = clock.monotonic_ns()

    def monotonic_ns(self) -> int:
        return (self._start_ns if self.is_stopped else clock.monotonic_ns()) + self.ahead_ns

    def end_sessions(self) -> None:
        """Advance beyond the end of the sessions of all clients."""
        self.ahead_ns += SESSION_NS + 1


@pytest.fixture
def shifted_clock(monkeypatch: pytest.MonkeyPatch) -> ShiftedClock:
    """Replaces the clock of connections with SASL."""
    shifted = ShiftedClock()
    monkeypatch.setattr(sasl_gate, "clock", shifted)
    return shifted


async def is_served(client: Client) -> bool:
    return bool((await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.NONE)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_client_authenticates_anew_at_once(tmp_path: Path, mechanism: str) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        assert (await log_in(client, mechanism=mechanism)).session_lifetime_ms == 3_600_000
        assert await is_served(client)
        answer = await log_in(client, mechanism=mechanism)
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 3_600_000)
        assert await is_served(client)
        assert metric(server, "groupd_successful_reauthentications_total", mechanism=mechanism) == 1


@pytest.mark.parametrize("at", ["request", "answer"])
async def test_a_client_authenticates_anew_while_a_fault_delays_its_handshakes(
    tmp_path: Path, at: str
) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        control = ControlPlane(server)
        await log_in(client)
        lab = Lab(server, control)
        name = lab.fault({"api": "SaslHandshake"}, do={"at": at, "delay": 5})
        assert (await log_in(client)).error_code == ErrorCode.NONE
        assert lab.status(name).hit == 1
        assert await is_served(client)
        control.close()


async def test_a_second_time_within_a_second_is_an_error_and_no_more(
    tmp_path: Path, shifted_clock: ShiftedClock
) -> None:
    shifted_clock.is_stopped = True
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        await log_in(client)
        assert (await choose(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)


async def test_where_sessions_do_not_end_nobody_authenticates_anew(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(server) as client:
        await log_in(client)
        assert (await choose(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = await show(client, plain_token())
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"
        assert await is_served(client)


async def test_what_comes_behind_the_tokens_is_answered_in_order(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        client.send(ListGroupsRequest(), 4)
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=plain_token()), 2)
        client.send(ListGroupsRequest(), 4)
        assert [(await client.receive()).error_code for _ in range(4)] == [0, 0, 0, 0]


async def test_a_wrong_password_the_second_time_ends_the_connection(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client, mechanism="SCRAM-SHA-256")
        answer = await log_in(client, password="wrong", mechanism="SCRAM-SHA-256")
        assert answer.error_message == (
            "Authentication failed during re-authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-256"
        )
        assert await client.closed()
        assert metric(server, "groupd_failed_reauthentications_total") == 1


async def test_another_user_is_refused(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        answer = await log_in(client, "bob", "bob-secret")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert await client.closed()


async def test_another_mechanism_is_refused_at_its_first_token(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        assert (await choose(client, "SCRAM-SHA-256")).error_code == ErrorCode.NONE
        client.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
        assert await client.closed()


async def test_an_unknown_mechanism_ends_the_connection(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        client.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert await client.closed()


async def test_another_api_instead_of_a_token_is_a_wrong_move(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        await choose(client, "PLAIN")
        assert (await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.closed()


async def test_a_request_after_the_end_of_its_session_ends_the_connection(
    tmp_path: Path, shifted_clock: ShiftedClock
) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        assert (await log_in(client, version=2)).session_lifetime_ms == 3_600_000
        assert await is_served(client)
        shifted_clock.end_sessions()
        client.send(ListGroupsRequest(), 4)
        assert await client.closed()
        assert metric(server, "groupd_expired_connections_killed_total") == 1


async def test_a_client_may_authenticate_after_the_end_of_its_session(
    tmp_path: Path, shifted_clock: ShiftedClock
) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        shifted_clock.end_sessions()
        assert (await log_in(client)).error_code == ErrorCode.NONE
        assert await is_served(client)


async def test_a_heartbeat_that_is_remembered_is_not_answered_after_the_end(
    tmp_path: Path, shifted_clock: ShiftedClock
) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
        member_id, generation_id = await join_alone(client, "beating")
        beat: HeartbeatRequest = heartbeat_request("beating", member_id, generation_id)
        for _ in range(3):  # from the second one on it is known
            assert (await client.call(beat, 4)).error_code == ErrorCode.NONE
        shifted_clock.end_sessions()
        client.send(beat, 4)
        assert await client.closed()


async def test_a_join_that_is_parked_outlives_its_session(
    tmp_path: Path, shifted_clock: ShiftedClock
) -> None:
    properties = {**LONG, "group.initial.rebalance.delay.ms": "800"}
    async with serving_sasl(tmp_path, properties) as server, Client(server) as client:
        await log_in(client, password=PASSWORD)
        client.send(join_request("parked"), 3)
        await until(lambda: any(partition.waiting for partition in server.runtime.partitions))
        shifted_clock.end_sessions()
        assert (await client.receive()).error_code == ErrorCode.NONE
        client.send(ListGroupsRequest(), 4)
        assert await client.closed()


async def test_tokens_of_a_re_authentication_may_come_byte_by_byte(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, LONG) as server, Client(server) as client:
        await log_in(client)
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
