"""The exchange without a socket: it handles or refuses any frames in any order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.core.principal import Principal
from coordinator.security.core.sasl_mechanisms import PlainServer, ScramMechanism, ScramServer
from coordinator.security.server.sasl_exchange import (
    ExchangeContinues,
    ExchangeFailed,
    ExchangeSucceeded,
    SaslExchange,
    SaslIdentity,
    SaslMechanisms,
)
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.primitives import Malformed
from protocol.schema import message_info
from tests.security.server.sasl_server import credential

SHA_256 = ScramMechanism.SCRAM_SHA_256
KNOWN = {"alice": credential(SHA_256, "secret")}
MECHANISMS = SaslMechanisms(
    {
        "PLAIN": lambda: PlainServer({"alice": "secret"}),
        "SCRAM-SHA-256": lambda: ScramServer(SHA_256, KNOWN.get, "nonce-of-server"),
    },
    {"PLAIN": 5000, "SCRAM-SHA-256": 0},
)
ALICE = SaslIdentity(Principal("User", "alice"), "PLAIN")


def exchange(before: SaslIdentity | None = None) -> SaslExchange:
    def answer(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=[])

    return SaslExchange(MECHANISMS, answer, before)


def frame(request: Any, version: int) -> bytes:
    """Without its size."""
    return bytes(encode_request(message_info(type(request)).api_key, version, 7, "test", request))[4:]


PLAIN = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
BARE = frame(SaslHandshakeRequest(mechanism="PLAIN"), 0)
SCRAM = frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
VERSIONS = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
RIGHT = frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
FIRST = frame(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
OTHER = frame(ListGroupsRequest(), 4)
FRAMES = [PLAIN, BARE, SCRAM, VERSIONS, RIGHT, FIRST, OTHER, b"\0alice\0secret"]
mutated = st.builds(
    lambda data, at, new: data[: at % (len(data) + 1)] + new + data[at % (len(data) + 1) + len(new) :],
    st.sampled_from(FRAMES),
    st.integers(0, 200),
    st.binary(max_size=4),
)
cut = st.builds(lambda data, end: data[: end % (len(data) + 1)], st.sampled_from(FRAMES), st.integers(0, 200))


@given(frames=st.lists(st.sampled_from(FRAMES) | mutated | cut | st.binary(max_size=60), max_size=6))
def test_nobody_gets_in_without_the_password_and_nothing_else_is_raised(frames: list[bytes]) -> None:
    for before in (None, ALICE):
        one = exchange(before)
        for each in frames:
            try:
                outcome = one.receive_frame(each)
            except Malformed:
                break
            if isinstance(outcome, ExchangeSucceeded):
                assert b"\0alice\0secret" in each
                assert outcome.identity == ALICE
                break
            if isinstance(outcome, ExchangeFailed):
                assert outcome.reason.isprintable()
                break
            assert isinstance(outcome, ExchangeContinues)


def test_a_session_ends_with_the_property_of_its_mechanism_or_its_credential() -> None:
    assert MECHANISMS.session_ms("PLAIN", None) == 5000
    assert MECHANISMS.session_ms("PLAIN", 3000) == 3000
    assert MECHANISMS.session_ms("PLAIN", 9000) == 5000
    assert MECHANISMS.session_ms("PLAIN", -1) == 0
    assert MECHANISMS.session_ms("SCRAM-SHA-256", None) is None
    assert MECHANISMS.session_ms("SCRAM-SHA-256", 3000) == 3000


def test_the_frames_of_a_login() -> None:
    one = exchange()
    assert isinstance(one.receive_frame(VERSIONS), ExchangeContinues)
    assert isinstance(one.receive_frame(PLAIN), ExchangeContinues)
    outcome = one.receive_frame(RIGHT)
    assert isinstance(outcome, ExchangeSucceeded)
    assert (outcome.identity, outcome.session_ms) == (ALICE, 5000)
