"""A connection whose client has shown who it is, or is about to: of every listener that is not PLAINTEXT.

It begins when whatever stands before it is done: a TLS handshake, the tokens of SASL. What follows is the
connection of every other listener.
"""

from typing import TYPE_CHECKING

from coordinator.net.connection import Connection
from coordinator.net.endpoint import Endpoint
from coordinator.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from protocol.messages.sasl_handshake import SaslHandshakeRequest


class SecuredConnection(Connection):
    """See the top of this file. Whoever authenticates the client sets `identity`."""

    __slots__ = ("identity",)

    def __init__(self, endpoint: Endpoint, peername: object) -> None:
        super().__init__(endpoint, peername)
        self.identity: Principal = ANONYMOUS

    @property
    def principal(self) -> Principal:
        """Who the client has shown itself to be."""
        return self.identity

    def reauthenticate(self, request: "SaslHandshakeRequest") -> object | None:
        """What answers a SaslHandshake by which the client begins to authenticate anew; None: it cannot."""
        return None
