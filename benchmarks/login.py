"""How a client authenticates to a listener."""

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scramp import ScramClient

from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from benchmarks.connection import Connection

PLAIN: Final = "PLAIN"
SCRAM: Final = "SCRAM-SHA-256"
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


@dataclass(frozen=True)
class Login:
    """The trusted certificates for TLS (None: no TLS), and the SASL mechanism of the user ("": no SASL)."""

    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""

    async def log_in(self, connection: "Connection") -> None:
        """Log in by SASL on an open connection."""
        if not self.mechanism:
            return
        chosen = await connection.request(
            SaslHandshakeRequest(mechanism=self.mechanism), _HANDSHAKE_VERSION, SaslHandshakeResponse
        )
        assert chosen.error_code == ErrorCode.NONE, ErrorCode(chosen.error_code)
        if self.mechanism == PLAIN:
            await _show(connection, f"\0{self.user}\0{self.password}".encode())
            return
        client = ScramClient([self.mechanism], self.user, self.password)
        first = await _show(connection, client.get_client_first().encode())
        client.set_server_first(first.decode())
        final = await _show(connection, client.get_client_final().encode())
        client.set_server_final(final.decode())


async def _show(connection: "Connection", token: bytes) -> bytes:
    answer = await connection.request(
        SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION, SaslAuthenticateResponse
    )
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return answer.auth_bytes


ANYBODY: Final = Login()
"""For a listener without authentication."""
