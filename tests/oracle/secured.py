"""A broker with authentication and authorization: its configuration, and how connections log in.

Its first listener has no authentication and full permissions, for the preparation of sessions. A session creates
its own SCRAM users, so that sessions do not collide. The two PLAIN users are in the configuration.
"""

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from scramp import ScramClient

from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from tests.oracle.play import Play
    from tests.oracle.wire import Wire

SASL: Final = "SASL"
BRIEF: Final = "BRIEF"
"""A listener with sessions of `SESSION_MS`."""
LISTENERS: Final = {SASL: "SASL_PLAINTEXT", BRIEF: "SASL_PLAINTEXT"}
"""Those besides the first, and their security protocols."""
SESSION_MS: Final = 4000
PLAIN, SHA_256, SHA_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
PLAIN_PASSWORDS: Final = {"peter": "peter-secret", "paul": "paul-secret"}
PASSWORD: Final = "a-secret"
"""Of every user that a session makes."""
_ITERATIONS: Final = 4096
_SALT: Final = bytes(range(16))
_NUMBERS: Final = {SHA_256: 1, SHA_512: 2}
_HASHES: Final = {SHA_256: "sha256", SHA_512: "sha512"}
_USERS: Final = " ".join(f'user_{user}="{password}"' for user, password in PLAIN_PASSWORDS.items())
_MODULES: Final = {
    PLAIN: f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};",
    SHA_256: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    SHA_512: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
}
PROPERTIES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": ",".join(_MODULES),
    "connection.failed.authentication.delay.ms": "20",
    "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
    **{
        f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": module
        for listener in LISTENERS
        for mechanism, module in _MODULES.items()
    },
}


def salted(password: str, mechanism: str, salt: bytes = _SALT, iterations: int = _ITERATIONS) -> bytes:
    """A password in the form in which a client sends it for a new user."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def upsertion(name: str, mechanism: str = SHA_256, **fields: Any) -> ScramCredentialUpsertion:
    """That a user has `PASSWORD`."""
    given = {
        "iterations": _ITERATIONS,
        "salt": _SALT,
        "salted_password": salted(PASSWORD, mechanism),
        **fields,
    }
    return ScramCredentialUpsertion(name=name, mechanism=_NUMBERS[mechanism], **given)


def make_users(play: "Play", *names: str, mechanism: str = SHA_256) -> None:
    """Create users of this session and wait until the broker knows them. `names` are the names on the wire."""
    made = [upsertion(name, mechanism) for name in names]
    asked = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])
    with play.quietly():
        answer = play.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=made), 0, "admin")
    assert not any(result.error_code for result in answer.results), answer
    play.until(
        lambda: all(
            _NUMBERS[mechanism] in (info.mechanism for info in result.credential_infos)
            for result in play.ask(asked, 0, "admin").results
        )
    )


def enter(play: "Play", *shorts: str, listener: str = SASL, mechanism: str = SHA_256) -> None:
    """Create users and log in the connections with their names."""
    make_users(play, *(play.name(short) for short in shorts), mechanism=mechanism)
    for short in shorts:
        play.entrances[short] = listener, partial(log_in, user=play.name(short), mechanism=mechanism)


def principal(play: "Play", short: str) -> str:
    """How ACLs call a user; `*` is everybody."""
    return f"User:{short if short == '*' else play.name(short)}"


def log_in(wire: "Wire", user: str, mechanism: str = SHA_256, password: str = PASSWORD) -> Any:
    """Authenticates a connection; the last answer. Raises AssertionError when it is not let in."""
    wire.send(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert wire.take().error_code == 0
    if mechanism == PLAIN:
        return _step(wire, f"\0{user}\0{password}")
    client = ScramClient([mechanism], user, password)
    client.set_server_first(_step(wire, client.get_client_first()).auth_bytes.decode())
    last = _step(wire, client.get_client_final())
    client.set_server_final(last.auth_bytes.decode())
    return last


def _step(wire: "Wire", token: str) -> Any:
    wire.send(SaslAuthenticateRequest(auth_bytes=token.encode()), 2)
    answer = wire.take()
    assert answer.error_code == 0, answer
    return answer
