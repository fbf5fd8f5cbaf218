"""Client messages of PLAIN and SCRAM, against the examples of the RFCs and against groupd's server half."""

import pytest

from coordinator.security.core.sasl_login import plain_exchange, scram_exchange
from coordinator.security.core.sasl_mechanisms import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
    SaslStep,
    ScramMechanism,
    ScramServer,
    create_credential,
    salted_password,
)

SALT = b"salt of alice"
ROUNDS = 4096

RFC_7677 = (
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ),
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
"""Section 3 of it: client, server, client, server."""


def test_the_exchange_of_the_rfc() -> None:
    client = scram_exchange(ScramMechanism.SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(client) == RFC_7677[0]
    assert client.send(RFC_7677[1]) == RFC_7677[2]
    with pytest.raises(StopIteration):
        client.send(RFC_7677[3])


def test_plain_is_one_token() -> None:
    client = plain_exchange("alice", "sécret")
    assert next(client) == b"\0alice\0s\xc3\xa9cret"
    with pytest.raises(StopIteration):
        client.send(b"")


def talk(mechanism: ScramMechanism, user: str, password: str) -> SaslStep:
    """Run a client against our server, with `password` as the user's password; return the server's last step."""
    credential = create_credential(mechanism, salted_password(mechanism, "right", SALT, ROUNDS), SALT, ROUNDS)
    server = ScramServer(mechanism, {user: credential}.get, "server-nonce")
    client = scram_exchange(mechanism, user, password, "client-nonce")
    answer = server.evaluate_response(next(client))
    while isinstance(answer, Challenge):
        answer = server.evaluate_response(client.send(answer.token))
    if isinstance(answer, Authenticated):
        with pytest.raises(StopIteration):
            client.send(answer.token)
    return answer


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a=l,i=2Cce"])
def test_our_server_lets_in_who_knows_the_password(mechanism: ScramMechanism, user: str) -> None:
    answer = talk(mechanism, user, "right")
    assert isinstance(answer, Authenticated)
    assert answer.name == user
    assert isinstance(talk(mechanism, user, "wrong"), AuthenticationRefused)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"e=other-error",
        b"r=other-nonce,s=c2FsdA==,i=4096",
        b"r=mine-and-more,s=c,i=4096",
        b"r=mine,i=4096",
    ],
)
def test_a_server_that_says_something_else_first_is_left(said: bytes) -> None:
    client = scram_exchange(ScramMechanism.SCRAM_SHA_256, "alice", "right", "mine")
    next(client)
    with pytest.raises(ValueError, match=r".+"):
        client.send(said)


@pytest.mark.parametrize("said", [b"", b"v=", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="])
def test_a_server_that_does_not_know_the_user_is_left(said: bytes) -> None:
    client = scram_exchange(ScramMechanism.SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(client)
    client.send(RFC_7677[1])
    with pytest.raises(ValueError, match="signature is invalid"):
        client.send(said)
