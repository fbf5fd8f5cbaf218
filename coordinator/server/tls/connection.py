"""A connection of a listener SSL: who its client is, its certificate says."""

import asyncio
import ssl
from typing import cast

from coordinator.net.endpoint import Endpoint
from coordinator.net.handshake_failure import HandshakeFailure
from coordinator.net.secured_connection import SecuredConnection
from coordinator.security.distinguished_name import NotDer, subject_of
from coordinator.security.principal import ANONYMOUS, USER, Principal
from coordinator.security.principal_mapping import NoMatchingRule, PrincipalMapping


class TlsConnection(SecuredConnection):
    """It begins when the handshake is done."""

    __slots__ = ("_mapping",)

    def __init__(self, endpoint: Endpoint, peername: object, mapping: PrincipalMapping) -> None:
        super().__init__(endpoint, peername)
        self._mapping = mapping

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done. A client of which the rules make nobody is sent away."""
        ssl_object: ssl.SSLObject = transport.get_extra_info("ssl_object")
        try:
            self.identity = principal_of(ssl_object.getpeercert(binary_form=True), self._mapping)
        except (NoMatchingRule, NotDer) as error:
            self._endpoint.handshake_failed(
                self, HandshakeFailure("principal", f"of its certificate {error}")
            )
            super().connection_made(transport)
            cast("asyncio.Transport", transport).abort()
            return
        super().connection_made(transport)


def principal_of(certificate: bytes | None, mapping: PrincipalMapping) -> Principal:
    """Who a client is. In: the DER encoding of its certificate, None where it gave none. Raises NoMatchingRule, and
    NotDer for a certificate that cannot be read."""
    return Principal(USER, mapping.name_of(subject_of(certificate))) if certificate else ANONYMOUS
