"""PLAIN: Kafka's order and texts of errors, without revealing existing users."""

import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.core.sasl_mechanisms import Authenticated, AuthenticationRefused, PlainServer

PASSWORDS = {"alice": "alice-secret", "bøb": "geheim=,"}
WRONG = "Authentication failed: Invalid username or password"
OTHER = "Authentication failed: Client requested an authorization id that is different from username"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("\0\0", "Authentication failed: username not specified"),
        ("bob\0alice\0", "Authentication failed: password not specified"),
        ("\0alice\0alice", WRONG),
        ("\0alice\0alice-secret ", WRONG),
        ("\0nobody\0alice-secret", WRONG),
        ("bob\0alice\0wrong", WRONG),
        ("bob\0alice\0alice-secret", OTHER),
    ],
)
def test_what_is_refused_is_told_in_kafkas_words(token: str, message: str) -> None:
    judged = PlainServer(PASSWORDS).evaluate_response(token.encode())
    assert isinstance(judged, AuthenticationRefused)
    assert judged.message == message


@pytest.mark.parametrize("token", ["\0alice\0alice-secret", "alice\0alice\0alice-secret", "\0bøb\0geheim=,"])
def test_who_knows_the_password_is_let_in(token: str) -> None:
    judged = PlainServer(PASSWORDS).evaluate_response(token.encode())
    assert judged == Authenticated(token.split("\0")[1])


@given(token=st.binary(max_size=80) | st.lists(st.sampled_from([b"\0", b"alice", b"\xff"])).map(b"".join))
def test_whatever_else_comes_is_refused(token: bytes) -> None:
    assert isinstance(PlainServer(PASSWORDS).evaluate_response(token), AuthenticationRefused)


def test_the_log_says_more_than_the_client_but_no_password() -> None:
    unknown, wrong = (
        PlainServer(PASSWORDS).evaluate_response(f"\0{user}\0hush".encode()) for user in ("nobody", "alice")
    )
    assert isinstance(unknown, AuthenticationRefused)
    assert isinstance(wrong, AuthenticationRefused)
    assert unknown.reason != wrong.reason
    assert unknown.message == wrong.message
    assert "hush" not in unknown.reason + wrong.reason


def done_for(token: bytes) -> list[str]:
    """Return the calls of a token check in order, including C functions.

    a measure of its time without clock noise.
    """
    server = PlainServer(PASSWORDS)
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            called.append(frame.f_code.co_name if event == "call" else repr(argument).partition(" at ")[0])

    sys.setprofile(note)
    try:
        server.evaluate_response(token)
    finally:
        sys.setprofile(None)
    return called


def test_an_unknown_user_takes_what_a_wrong_password_takes() -> None:
    unknown, wrong = (done_for(f"\0{user}\0hush".encode()) for user in ("nobody", "alice"))
    assert unknown == wrong
    assert len(wrong) > 5
    assert done_for(b"\0alice") != wrong


def test_no_prefix_and_no_changed_byte_lets_anybody_in() -> None:
    whole = f"\0alice\0{PASSWORDS['alice']}".encode()
    server = PlainServer(PASSWORDS)
    for end in range(len(whole)):
        assert isinstance(server.evaluate_response(whole[:end]), AuthenticationRefused)
        for byte in (0, 0x0A, 0x20, 0x7F, 0x80, 0xFF):
            if whole[end] != byte:
                assert isinstance(
                    server.evaluate_response(whole[:end] + bytes([byte]) + whole[end + 1 :]),
                    AuthenticationRefused,
                )
                assert isinstance(
                    server.evaluate_response(whole[:end] + bytes([byte]) + whole[end:]), AuthenticationRefused
                )
    assert isinstance(server.evaluate_response(whole), Authenticated)
