"""SASL of one listener: its mechanisms, limits and counters, and the validation of its OAUTHBEARER tokens.
Validators of signed tokens are imported only for a listener that uses them.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator.config.listener_settings import ListenerSettings, OauthSettings
from coordinator.core import clock
from coordinator.core.message_text import StartFailed
from coordinator.network.client_connection import SecuredConnection
from coordinator.network.request_routes import AuthenticationCounts
from coordinator.security.core.oauthbearer import (
    OAUTHBEARER,
    BearerServer,
    UnsecuredTokenValidator,
    parse_unsecured_rules,
)
from coordinator.security.core.sasl_mechanisms import (
    PLAIN,
    PlainServer,
    SaslServer,
    ScramCredential,
    ScramMechanism,
    ScramServer,
)
from coordinator.security.server.sasl_exchange import (
    AnswerApiVersions,
    SaslExchange,
    SaslIdentity,
    SaslMechanisms,
)
from storage.files import Files

if TYPE_CHECKING:
    from coordinator.security.server.refreshing_jwks import RefreshingJwks

_LOG: Final = logging.getLogger("OAUTHBEARER")

MAX_BUFFERED_BYTES: Final = 32 * 1024 * 1024
"""The limit on incomplete frames of all unauthenticated clients of a listener together."""
_USER_PREFIX: Final = "user_"
_NONCE_BYTES: Final = 24
GetScramCredentials = Callable[[], Mapping[tuple[str, ScramMechanism], ScramCredential]]
"""Return the current credentials by user and mechanism."""


class SaslListener:
    """SASL of one listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ListenerSettings,
        credentials: GetScramCredentials,
        counts: AuthenticationCounts,
        files: Files,
    ) -> None:
        """Create the mechanisms of a listener.

        Args:
            loop: the event loop.
            settings: the SASL settings of the listener.
            credentials: returns the SCRAM credentials.
            counts: the counters of authentications.
            files: file access, for token keys in files.

        Raises:
            StartFailed: a mechanism is unknown or cannot be served.
        """
        self.loop = loop
        self.counts = counts
        self.max_receive_bytes = settings.sasl_server_max_receive_size
        self.delay_s = settings.connection_failed_authentication_delay_ms / 1000
        self.timeout_s = settings.authentication_timeout_ms / 1000
        self.max_buffered_bytes = MAX_BUFFERED_BYTES
        self.buffered_bytes = 0
        """The bytes that the gates of this listener buffer now."""
        self._listener = settings.name
        self._bearer = OAuthBearerListener(settings, files) if OAUTHBEARER in settings.mechanisms else None
        servers = {
            name: _create_server_factory(name, settings, credentials, self._bearer)
            for name in settings.mechanisms
        }
        self._mechanisms = SaslMechanisms(servers, settings.connections_max_reauth_ms)

    async def start(self) -> None:
        """Fetch external data, such as token keys, before the listener accepts clients.

        Raises:
            StartFailed: the fetch failed.
        """
        if self._bearer is not None:
            await self._bearer.start()

    async def reload(self) -> None:
        """Fetch external data again. A failure is logged."""
        if self._bearer is not None:
            await self._bearer.reload()

    def close(self) -> None:
        """Stop the fetches of keys."""
        if self._bearer is not None:
            self._bearer.close()

    def create_exchange(
        self, answer_api_versions: AnswerApiVersions, previous_identity: SaslIdentity | None = None
    ) -> SaslExchange:
        """Create an authentication.

        Args:
            answer_api_versions: answers the client's ApiVersions requests.
            previous_identity: the client's identity before a re-authentication; None before its first one.
        """
        return SaslExchange(self._mechanisms, answer_api_versions, previous_identity)

    # Reports of gates and connections

    def on_authenticated(
        self, connection: SecuredConnection, mechanism: str, *, is_reauthentication: bool = False
    ) -> None:
        """Count a successful authentication or re-authentication."""
        counted = self.counts.reauthentications if is_reauthentication else self.counts.succeeded
        counted[self._listener, mechanism] += 1

    def on_authentication_failed(
        self, connection: SecuredConnection, mechanism: str, reason: str, *, is_reauthentication: bool = False
    ) -> None:
        """Log and count a failed authentication. `mechanism` is "" for an unknown one; `reason` is printable."""
        counted = self.counts.failed_reauthentications if is_reauthentication else self.counts.failed
        counted[self._listener, mechanism] += 1
        connection.endpoint.on_authentication_failed(connection, mechanism, reason)

    def on_invalid_request(self, connection: SecuredConnection, reason: str) -> None:
        """Count a malformed request of an unauthenticated client as a failed authentication, and log it."""
        self.counts.failed[self._listener, ""] += 1
        connection.endpoint.on_invalid_request(connection, reason)

    def on_error(self, connection: SecuredConnection, problem: Exception) -> None:
        """Log an internal error during an authentication."""
        connection.endpoint.on_handler_failed(connection, problem)


class OAuthBearerListener:
    """OAUTHBEARER of one listener: the rules and keys of its tokens."""

    def __init__(self, settings: ListenerSettings, files: Files) -> None:
        """Load the rules and keys.

        Raises:
            StartFailed: the settings cannot validate tokens.
        """
        oauth = settings.oauth
        assert oauth is not None
        self._keys: RefreshingJwks | None = None
        if oauth.is_secured:
            self._use_signed_tokens(settings.name, oauth, files)
        else:
            self._use_unsecured_tokens(settings.name, settings.jaas_options[OAUTHBEARER])

    def create_server(self) -> BearerServer:
        """Create the server's side of one authentication."""
        refresh_keys = None if self._keys is None else self._keys.refresh_for_unknown_key
        return BearerServer(self._validate, clock.wall_ms, refresh_keys)

    async def start(self) -> None:
        """Fetch the keys of signed tokens.

        Raises:
            StartFailed: the fetch failed.
        """
        if self._keys is not None:
            await self._keys.start()

    async def reload(self) -> None:
        """Fetch the keys again. A failure is logged."""
        if self._keys is not None:
            await self._keys.reload()

    def close(self) -> None:
        """Stop the fetches of keys."""
        if self._keys is not None:
            self._keys.close()

    def _use_unsecured_tokens(self, listener: str, options: Mapping[str, str]) -> None:
        try:
            rules = parse_unsecured_rules(options)
        except ValueError as error:
            raise StartFailed(
                f"the listener {listener}, its login module of {OAUTHBEARER}: {error}"
            ) from error
        _LOG.warning(
            "Listener %s accepts unsigned OAUTHBEARER tokens, so any client can claim any name: use this only for "
            "tests",
            listener,
        )
        self._validate = UnsecuredTokenValidator(rules, clock.wall_ms).validate

    def _use_signed_tokens(self, listener: str, oauth: OauthSettings, files: Files) -> None:
        # The signature library is slow to import, and only signed tokens need it.
        from coordinator.security.core.signed_token import ClaimRules, SignedTokenValidator
        from coordinator.security.server.refreshing_jwks import (
            JWKS_URL_PROPERTY,
            RefreshingJwks,
            create_fetcher,
        )

        for name in ("audience", "issuer"):
            if not getattr(oauth, f"sasl_oauthbearer_expected_{name}"):
                _LOG.warning(
                    "Listener %s accepts signed tokens with any %s: sasl.oauthbearer.expected.%s is not set",
                    *(listener, name, name),
                )
        tokens = SignedTokenValidator(
            ClaimRules(
                frozenset(oauth.sasl_oauthbearer_expected_audience),
                oauth.sasl_oauthbearer_expected_issuer,
                oauth.sasl_oauthbearer_clock_skew_seconds * 1000,
                oauth.sasl_oauthbearer_scope_claim_name,
                oauth.sasl_oauthbearer_sub_claim_name,
            ),
            clock.wall_ms,
        )
        try:
            fetch = create_fetcher(oauth.sasl_oauthbearer_jwks_endpoint_url, files)
        except ValueError as error:
            raise StartFailed(f"the listener {listener}, {JWKS_URL_PROPERTY}: {error}") from error
        self._keys = RefreshingJwks(listener, oauth, tokens, fetch)
        self._validate = tokens.validate


def _create_server_factory(
    mechanism: str,
    settings: ListenerSettings,
    credentials: GetScramCredentials,
    bearer: OAuthBearerListener | None,
) -> Callable[[], SaslServer]:
    """Return a factory for the server's side of one authentication."""
    if mechanism == OAUTHBEARER and bearer is not None:
        return bearer.create_server
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
            return partial(_create_scram_server, scram, credentials)
    raise StartFailed(f"the listener {settings.name} enables {mechanism}, which groupd does not support")


def _create_scram_server(mechanism: ScramMechanism, credentials: GetScramCredentials) -> ScramServer:
    return ScramServer(
        mechanism, lambda user: credentials().get((user, mechanism)), secrets.token_urlsafe(_NONCE_BYTES)
    )
