"""SCRAM: the vectors of its RFC, an independent client, Kafka's steps, and arbitrary messages."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient, ScramException

from coordinator.security.core.sasl_mechanisms import (
    MAX_TOKEN_BYTES,
    MIN_ITERATIONS,
    Authenticated,
    AuthenticationRefused,
    Challenge,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    create_credential,
    salted_password,
)

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def credential(mechanism: ScramMechanism, password: str, iterations: int = MIN_ITERATIONS) -> ScramCredential:
    return create_credential(
        mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations
    )


PENCIL = {"user": credential(SHA_256, "pencil")}


def server() -> ScramServer:
    return ScramServer(SHA_256, PENCIL.get, NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = server()
    assert scram.evaluate_response(CLIENT_FIRST) == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.evaluate_response(CLIENT_FINAL) == Authenticated(
        "user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "with blank", "=2C"])
def test_an_independent_client_is_let_in_and_believes_the_server(
    mechanism: ScramMechanism, user: str
) -> None:
    known = {user: credential(mechanism, "päss=word,")}
    client = ScramClient([mechanism.mechanism_name], user, "päss=word,")
    scram = ScramServer(mechanism, known.get, "server-nonce")
    challenge = scram.evaluate_response(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    done = scram.evaluate_response(client.get_client_final().encode())
    assert isinstance(done, Authenticated)
    assert done.name == user
    client.set_server_final(done.token.decode())


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_wrong_password_is_refused_at_the_second_step_and_an_unknown_user_at_the_first(
    mechanism: ScramMechanism,
) -> None:
    known = {"alice": credential(mechanism, "right")}
    client = ScramClient([mechanism.mechanism_name], "alice", "wrong")
    scram = ScramServer(mechanism, known.get, "server-nonce")
    challenge = scram.evaluate_response(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    wrong = scram.evaluate_response(client.get_client_final().encode())
    unknown = ScramServer(mechanism, known.get, "server-nonce").evaluate_response(b"n,,n=bob,r=abc")
    for refused in (wrong, unknown):
        assert isinstance(refused, AuthenticationRefused)
        assert refused.message is None  # the same words for both


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    known = {"alice": credential(SHA_256, "right")}
    forged = {"alice": ScramCredential(SALT, known["alice"].stored_key, bytes(32), MIN_ITERATIONS)}
    client = ScramClient(["SCRAM-SHA-256"], "alice", "right")
    scram = ScramServer(SHA_256, forged.get, "server-nonce")
    challenge = scram.evaluate_response(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    done = scram.evaluate_response(client.get_client_final().encode())
    assert isinstance(done, Authenticated)
    with pytest.raises(ScramException):
        client.set_server_final(done.token.decode())


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (b"n,a=other,n=user,r=abc", "Client requested an authorization id that is different from username"),
        (b"n,a=nobody,n=somebody,r=abc", None),
        (b"y,,n=user,r=abc", None),
        (b"p=tls-unique,,n=user,r=abc", None),
        (b"n,,n=user,r=abc,tokenauth=true", None),
        (b"n,,n=us=er,r=abc", None),
        (b"n,,n=user,r=a\tbc", None),
        (b"n,,n=us\xc3\xa9r,r=abc", None),
        (b"n,,n=,r=abc", None),
        (b"n,,n=user,r=", None),
        (b"n,,n=user,r=abc\n", None),
        (b"", None),
    ],
)
def test_a_first_message_that_is_refused(first: bytes, message: str | None) -> None:
    refused = server().evaluate_response(first)
    assert isinstance(refused, AuthenticationRefused)
    assert (refused.message or "").endswith(message or "")
    assert (refused.message is None) is (message is None)


@pytest.mark.parametrize(
    "first",
    [b"n,a=user,n=user,r=abc", b"n,,n=user,r=abc,other=thing", b"n,,n=user,r=abc,tokenauth=false"],
)
def test_a_first_message_that_is_answered(first: bytes) -> None:
    challenge = server().evaluate_response(first)
    assert isinstance(challenge, Challenge)
    assert challenge.token.startswith(b"r=abc" + NONCE.encode() + b",s=")


def test_a_credential_of_too_few_iterations_is_refused() -> None:
    few = {"user": credential(SHA_256, "pencil", 4095)}
    assert isinstance(
        ScramServer(SHA_256, few.get, NONCE).evaluate_response(CLIENT_FIRST), AuthenticationRefused
    )


@pytest.mark.parametrize("token", [CLIENT_FIRST, CLIENT_FINAL])
def test_no_prefix_and_no_changed_byte_lets_anybody_in_but_the_user(token: bytes) -> None:
    is_final = token is CLIENT_FINAL
    changed = [token[:end] for end in range(len(token))]
    for at in range(len(token)):
        changed += [token[:at] + bytes([other]) + token[at + 1 :] for other in (0, 0x2C, 0x3D, 0x41, 0xFF)]
    for each in changed:
        if each == token:
            continue
        scram = server()
        if is_final:
            assert isinstance(scram.evaluate_response(CLIENT_FIRST), Challenge)
            assert isinstance(scram.evaluate_response(each), AuthenticationRefused), each
        else:
            judged = scram.evaluate_response(each)
            assert isinstance(judged, Challenge | AuthenticationRefused)
            if isinstance(judged, Challenge):  # another nonce, or a user of that name
                assert isinstance(scram.evaluate_response(CLIENT_FINAL), AuthenticationRefused), each


@given(tokens=st.lists(st.binary(max_size=60), min_size=2, max_size=2), is_first_good=st.booleans())
def test_bytes_that_are_no_message_are_refused(tokens: list[bytes], is_first_good: bool) -> None:
    scram = server()
    if is_first_good:
        assert isinstance(scram.evaluate_response(CLIENT_FIRST), Challenge)
    assert isinstance(scram.evaluate_response(tokens[0]), AuthenticationRefused)


def test_no_text_of_a_credential_shows_what_it_is_made_of() -> None:
    text = repr(PENCIL) + repr(server().evaluate_response(CLIENT_FIRST))
    kept = PENCIL["user"]
    assert not any(repr(secret) in text for secret in (kept.salt, kept.stored_key, kept.server_key))


def test_a_message_that_is_too_long_is_refused() -> None:
    longest = CLIENT_FIRST + b",x=".ljust(MAX_TOKEN_BYTES - len(CLIENT_FIRST), b"y")
    assert isinstance(server().evaluate_response(longest), Challenge)
    assert isinstance(server().evaluate_response(longest + b"y"), AuthenticationRefused)
