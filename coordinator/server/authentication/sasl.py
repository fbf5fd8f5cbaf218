"""SASL of one listener: its mechanisms, its bounds, and what is told of those who come."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from coordinator.config.listener_settings import ListenerSettings
from coordinator.net.connection import Connection
from coordinator.net.endpoint import Endpoint
from coordinator.security.bearer import MECHANISM as OAUTHBEARER
from coordinator.security.credential import ScramCredential, ScramMechanism
from coordinator.security.plain import MECHANISM as PLAIN
from coordinator.security.plain import PlainServer
from coordinator.security.sasl_server import SaslServer
from coordinator.security.scram import ScramServer
from coordinator.server.authentication.bearer import Bearer
from coordinator.server.authentication.connection import SaslConnection
from coordinator.server.authentication.door import SaslDoor
from coordinator.server.authentication.exchange import Exchange, Identity, Mechanisms
from coordinator.server.authentication_counts import AuthenticationCounts
from coordinator.server.start_failed import StartFailed
from storage.files import Files

MOST_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Of what clients of a listener have sent that are not let in, and is no whole frame."""
_USER_PREFIX: Final = "user_"
_NONCE_BYTES: Final = 24

ScramCredentials = Callable[[], Mapping[tuple[str, ScramMechanism], ScramCredential]]
"""Gives what is known now, by user and mechanism."""


class Sasl:
    """See the top of this file."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ListenerSettings,
        credentials: ScramCredentials,
        counts: AuthenticationCounts,
        files: Files,
    ) -> None:
        """In: what the listener is set to; where keys of tokens may be. Raises StartFailed for a mechanism that is
        not served, or cannot be."""
        self.loop = loop
        self.counts = counts
        self.max_receive_bytes = settings.sasl_server_max_receive_size
        self.delay_s = settings.connection_failed_authentication_delay_ms / 1000
        self.timeout_s = settings.authentication_timeout_ms / 1000
        self.most_kept_bytes = MOST_KEPT_BYTES
        self.kept_bytes = 0
        """What doors keep now."""
        self._listener = settings.name
        self._bearer = Bearer(settings, files) if OAUTHBEARER in settings.mechanisms else None
        servers = {
            name: _server_of(name, settings, credentials, self._bearer) for name in settings.mechanisms
        }
        self._mechanisms = Mechanisms(servers, settings.connections_max_reauth_ms)

    async def start(self) -> None:
        """Fetches what is to be had from elsewhere before clients may come. Raises StartFailed."""
        if self._bearer is not None:
            await self._bearer.start()

    async def read_again(self) -> None:
        """Fetches it again; what is wrong is told in the log."""
        if self._bearer is not None:
            await self._bearer.read_again()

    def close(self) -> None:
        """Fetches nothing any more."""
        if self._bearer is not None:
            self._bearer.close()

    def connection(self, endpoint: Endpoint, peername: object) -> SaslConnection:
        """The connection of a socket that was accepted."""
        return SaslConnection(endpoint, peername, self)

    def entrance(self, connection: Connection) -> SaslDoor:
        """What has the transport of a connection first."""
        assert isinstance(connection, SaslConnection)
        return SaslDoor(self, connection)

    def exchange(self, connection: SaslConnection, before: Identity | None = None) -> Exchange:
        """An authentication. In: who the client was until now, where it authenticates anew."""
        return Exchange(self._mechanisms, connection.answer_api_versions, before)

    # What doors and connections report

    def succeeded(self, connection: SaslConnection, mechanism: str, *, is_again: bool = False) -> None:
        """A client was let in, or has authenticated anew."""
        counted = self.counts.succeeded_again if is_again else self.counts.succeeded
        counted[self._listener, mechanism] += 1

    def turned_away(
        self, connection: SaslConnection, mechanism: str, reason: str, *, is_again: bool = False
    ) -> None:
        """A client could not show who it is. In: "" for a mechanism that is not known; a printable reason."""
        counted = self.counts.failed_again if is_again else self.counts.failed
        counted[self._listener, mechanism] += 1
        connection.endpoint.not_authenticated(connection, mechanism, reason)

    def refused(self, connection: SaslConnection, reason: str) -> None:
        """What a client has sent before it was let in is no request."""
        self.counts.failed[self._listener, ""] += 1
        connection.endpoint.refused(connection, reason)

    def failed(self, connection: SaslConnection, problem: Exception) -> None:
        """Judging a client failed for a reason that is ours."""
        connection.endpoint.handler_failed(connection, problem)


def _server_of(
    mechanism: str, settings: ListenerSettings, credentials: ScramCredentials, bearer: Bearer | None
) -> Callable[[], SaslServer]:
    """What makes the server's side of one authentication."""
    if mechanism == OAUTHBEARER and bearer is not None:
        return bearer.server
    if mechanism == PLAIN:
        options = settings.jaas_options[PLAIN]
        passwords = {
            name.removeprefix(_USER_PREFIX): password
            for name, password in options.items()
            if name.startswith(_USER_PREFIX)
        }
        return partial(PlainServer, passwords)
    for scram in ScramMechanism:
        if scram.mechanism_name == mechanism:
            return partial(_scram_server, scram, credentials)
    raise StartFailed(f"the listener {settings.name} asks for {mechanism}, which is not served here")


def _scram_server(mechanism: ScramMechanism, credentials: ScramCredentials) -> ScramServer:
    return ScramServer(
        mechanism, lambda user: credentials().get((user, mechanism)), secrets.token_urlsafe(_NONCE_BYTES)
    )
