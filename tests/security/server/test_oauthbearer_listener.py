"""OAUTHBEARER over a real socket: accepted and rejected tokens and their responses."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.core.message_text import StartFailed
from coordinator.security.server.sasl_gate import SaslConnection
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.broker.harness import Client
from tests.security.core.tokens import (
    OTHER_RSA,
    RSA,
    client_first,
    jwks,
    signed,
    signed_with_secret,
    unsecured,
)
from tests.security.server.identity_provider import UNSECURED, claims, good_token, is_let_in, log_in, secured
from tests.security.server.sasl_server import choose, metric, serving_sasl, show
from tests.security.server.sasl_server import log_in as log_in_by_password

INVALID = b'{"status":"invalid_token"}'


async def is_served(client: Client) -> bool:
    return bool((await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.NONE)


def keys_in(directory: Path) -> str:
    """The address of a file that has the keys."""
    file = directory / "the keys.json"
    file.write_text(json.dumps(jwks(RSA)))
    return file.as_uri()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_token_lets_in_as_who_it_is_for_until_it_expires(tmp_path: Path, version: int) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        answer = await log_in(client, unsecured(claims(life_s=100)), version)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert version == 0 or 90_000 < answer.session_lifetime_ms <= 101_000
        assert await is_served(client)
        (connection,) = server.connections.open
        assert isinstance(connection, SaslConnection)
        assert str(connection.client.principal) == "User:alice"
        assert metric(server, "groupd_successful_authentications_total", mechanism="OAUTHBEARER") == 1


async def test_a_token_that_is_good_for_ever_lets_in(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        assert (await log_in(client, unsecured(claims(exp=1e300)))).session_lifetime_ms > 2**62
        assert await is_served(client)


async def test_a_session_is_no_longer_than_the_property(tmp_path: Path) -> None:
    properties = {**UNSECURED, "connections.max.reauth.ms": "5000"}
    async with serving_sasl(tmp_path, properties) as server, Client(server) as client:
        assert (await log_in(client, unsecured(claims()))).session_lifetime_ms == 5000


async def test_an_invalid_token_is_told_so_and_refused_once_that_is_understood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    token = unsecured(claims(life_s=-5))
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        answer = await log_in(client, token)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, INVALID)
        answer = await show(client, b"\x01")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == INVALID.decode()
        assert await client.closed()
        assert metric(server, "groupd_failed_authentications_total", mechanism="OAUTHBEARER") == 1
    lines = [line for line in caplog.messages if "Failed authentication" in line]
    assert len(lines) == 1
    assert "OAUTHBEARER" in lines[0]
    assert "expired" in lines[0]
    assert token.split(".")[1] not in caplog.text


async def test_another_token_may_follow_one_that_is_invalid(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        assert (await log_in(client, "x.y.z")).auth_bytes == INVALID
        answer = await show(client, client_first(unsecured(claims())))
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert await is_served(client)


async def test_nobody_can_be_somebody_else_than_the_token_says(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        await choose(client, "OAUTHBEARER")
        answer = await show(client, client_first(unsecured(claims()), "bob"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
            "principal name (alice)"
        )
        assert await client.closed()


async def test_what_is_no_first_message_is_told_what_everybody_is_told(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        await choose(client, "OAUTHBEARER")
        answer = await show(client, b"n,,\x01auth=Basic abc\x01\x01")
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
        )
        assert await client.closed()


async def test_tokens_go_bare_after_an_old_handshake(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        await choose(client, "OAUTHBEARER", 0)
        for token, expected in (("x.y.z", INVALID), (unsecured(claims()), b"")):
            message = client_first(token)
            client.writer.write(len(message).to_bytes(4, "big") + message)
            assert await client.receive_frame() == expected
        assert await is_served(client)


async def test_a_bare_token_that_is_refused_is_answered_by_the_end_alone(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path, UNSECURED) as server, Client(server) as client:
        await choose(client, "OAUTHBEARER", 0)
        message = client_first(unsecured(claims()), "a\x01b")
        client.writer.write(len(message).to_bytes(4, "big") + message)
        assert await client.closed()


async def test_who_asks_for_a_scope_says_which(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    options = 'unsecuredValidatorRequiredScope="a b" unsecuredLoginStringClaim_sub="admin";'
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
    async with serving_sasl(tmp_path, {**UNSECURED, name: module + options}) as server:
        async with Client(server) as client:
            answer = await log_in(client, unsecured(claims(scope=["a"])))
            assert answer.auth_bytes == b'{"status":"insufficient_scope", "scope":"[a, b]"}'
        assert await is_let_in(server, unsecured(claims(scope=["a", "b", "c"])))


async def test_an_option_that_is_none_ends_the_start(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
    properties = {**UNSECURED, name: module + 'unsecuredValidatorAllowableClockSkewMs="soon";'}
    with pytest.raises(StartFailed, match=r"SASL_PLAINTEXT.*unsecuredValidatorAllowableClockSkewMs"):
        async with serving_sasl(tmp_path, properties):
            pass


async def test_tokens_that_are_not_signed_are_warned_of_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_sasl(tmp_path, UNSECURED):
        warnings = [line for line in caplog.messages if "SASL_PLAINTEXT" in line and "unsigned" in line]
        assert len(warnings) == 1
    caplog.clear()
    async with serving_sasl(tmp_path, secured(keys_in(tmp_path))):
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("what", ["audience", "issuer"])
async def test_tokens_of_anybody_for_anybody_are_warned_of_at_the_start(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    properties = secured(keys_in(tmp_path))
    del properties[f"sasl.oauthbearer.expected.{what}"]
    properties[f"sasl.oauthbearer.allow.unverified.{what}"] = "true"
    async with serving_sasl(tmp_path, properties) as server:
        assert await is_let_in(server, signed(RSA, {**claims(), "aud" if what == "audience" else "iss": "x"}))
    assert sum(f"sasl.oauthbearer.expected.{what}" in line for line in caplog.messages) == 1


def test_whoever_has_no_signed_tokens_loads_nothing_for_them() -> None:
    script = (
        "import sys, coordinator.security.server.secured_listener, coordinator.security.server.sasl_listener\n"
        "print(sorted({'joserfc', 'cryptography', 'aiohttp'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_signed_token_lets_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = good_token()
    async with serving_sasl(tmp_path, secured(keys_in(tmp_path))) as server, Client(server) as client:
        answer = await log_in(client, token)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert 3_500_000 < answer.session_lifetime_ms <= 3_600_000
        assert await is_served(client)
        async with Client(server) as other:
            assert (await log_in_by_password(other)).error_code == ErrorCode.NONE
    assert token.split(".")[2] not in caplog.text


NO_TOKENS: dict[str, Callable[[], str]] = {
    "expired": lambda: good_token(life_s=-31),
    "not signed": lambda: unsecured(claims()),
    "signed by another": lambda: signed(OTHER_RSA, claims()),
    "signed by another, who says where its key is": lambda: signed(
        OTHER_RSA, claims(), jku="http://127.0.0.1:9/", jwk=OTHER_RSA.as_dict(private=False)
    ),
    "a secret that everybody knows": lambda: signed_with_secret(RSA.as_pem(private=False), "rsa", claims()),
    "changed": lambda: (
        ".".join([good_token().split(".")[0], *good_token("bob").split(".")[1:]])[:-4] + "AAAA"
    ),
    "for others": lambda: signed(RSA, claims(aud="others")),
    "from others": lambda: signed(RSA, claims(iss="https://id.example.org")),
    "not yet": lambda: signed(RSA, claims(nbf=int(time.time()) + 40)),
    "of nobody": lambda: signed(RSA, claims(sub="")),
    "without an end": lambda: signed(RSA, {**claims(), "exp": None}),
}


@pytest.mark.parametrize("what", NO_TOKENS)
async def test_no_other_token_lets_in(tmp_path: Path, what: str) -> None:
    async with serving_sasl(tmp_path, secured(keys_in(tmp_path))) as server:
        assert not await is_let_in(server, NO_TOKENS[what]())
        assert await is_let_in(server, good_token())


async def test_strangers_tokens_cost_a_connection_each(tmp_path: Path) -> None:
    """Every prefix of a first message, and messages with a byte that is another."""
    message = client_first(unsecured(claims()))
    changed = [message[:length] for length in range(0, len(message), 3)]
    changed += [
        message[:at] + bytes([message[at] ^ 0x81]) + message[at + 1 :] for at in range(0, len(message), 3)
    ]
    async with serving_sasl(
        tmp_path, {**UNSECURED, "connection.failed.authentication.delay.ms": "0"}
    ) as server:
        for each in changed:
            async with Client(server) as client:
                await choose(client, "OAUTHBEARER")
                answer = await show(client, each)
                refused = answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert refused or answer.auth_bytes == INVALID
                client.send(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
                if not refused:
                    assert (await client.receive()).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await is_let_in(server, unsecured(claims()))
