"""TLS of the listener by which the brokers of a cluster reach each other: each shows others what clients see, too.

Source: Kafka's `SslFactory`, `SslEngineValidator`.
"""

import ssl
from collections.abc import Sequence
from typing import Final

from cryptography import x509

from coordinator.config.listener_settings import TlsSettings
from coordinator.server.tls.client import client_context
from coordinator.server.tls.store_error import StoreError
from coordinator.server.tls.stores import KeyStore

_MOST_TURNS: Final = 10


def between_brokers(
    settings: TlsSettings, store: KeyStore, trusted: Sequence[x509.Certificate], listener: ssl.SSLContext
) -> ssl.SSLContext:
    """What this broker shakes hands with as a client of others. In: the stores of the listener, and its context.
    Raises StoreError, also for a certificate that a broker with the same truststore would refuse."""
    context = client_context(settings, store, trusted)
    checks_host, context.check_hostname = context.check_hostname, False
    try:
        _shake_hands(context, listener)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or (error.reason or str(error)).lower().replace(
            "_", " "
        )
        raise StoreError(
            f"{store.name}: brokers reach each other by this listener, and one with these stores would not be let "
            f"in by another with the same: {reason} (ssl.truststore.location)"
        ) from None
    context.check_hostname = checks_host
    return context


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Raises SSLError where they do not come together."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_MOST_TURNS):
        sides = [side for side in sides if not _has_shaken(side)]
        if not sides:
            return
    raise ssl.SSLError("the handshake does not end")


def _has_shaken(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
