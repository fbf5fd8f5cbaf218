"""OAUTHBEARER of one listener: who judges its tokens."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from coordinator import clock
from coordinator.config.listener_settings import ListenerSettings, OauthSettings
from coordinator.security.bearer import MECHANISM, BearerServer
from coordinator.security.unsecured_token import UnsecuredTokens, unsecured_rules
from coordinator.server.start_failed import StartFailed
from storage.files import Files

if TYPE_CHECKING:
    from coordinator.server.authentication.published_keys import PublishedKeys

_LOG: Final = logging.getLogger("OAUTHBEARER")


class Bearer:
    """See the top of this file."""

    def __init__(self, settings: ListenerSettings, files: Files) -> None:
        """Raises StartFailed for what no token can be judged by."""
        oauth = settings.oauth
        assert oauth is not None
        self._keys: PublishedKeys | None = None
        if oauth.is_secured:
            self._take_signed(settings.name, oauth, files)
        else:
            self._take_unsecured(settings.name, settings.jaas_options[MECHANISM])

    def server(self) -> BearerServer:
        """The server's side of one authentication."""
        read_keys_again = None if self._keys is None else self._keys.read_for_unknown
        return BearerServer(self._validate, clock.wall_ms, read_keys_again)

    async def start(self) -> None:
        """Fetches the keys, where tokens are signed. Raises StartFailed."""
        if self._keys is not None:
            await self._keys.start()

    async def read_again(self) -> None:
        """Fetches the keys again; what is wrong is told in the log."""
        if self._keys is not None:
            await self._keys.read_again()

    def close(self) -> None:
        """Fetches nothing any more."""
        if self._keys is not None:
            self._keys.close()

    def _take_unsecured(self, listener: str, options: Mapping[str, str]) -> None:
        try:
            rules = unsecured_rules(options)
        except ValueError as error:
            raise StartFailed(f"the listener {listener}, its login module of {MECHANISM}: {error}") from error
        _LOG.warning(
            "Listener %s lets in everybody as whoever they say: tokens of OAUTHBEARER are not signed there, which "
            "is for tests alone",
            listener,
        )
        self._validate = UnsecuredTokens(rules, clock.wall_ms).validate

    def _take_signed(self, listener: str, oauth: OauthSettings, files: Files) -> None:
        # The library of signatures takes its time to load, and who has no such tokens needs none of it.
        from coordinator.security.signed_token import ClaimRules, SignedTokens
        from coordinator.server.authentication.key_document import document_at
        from coordinator.server.authentication.published_keys import PROPERTY, PublishedKeys

        for name in ("audience", "issuer"):
            if not getattr(oauth, f"sasl_oauthbearer_expected_{name}"):
                _LOG.warning(
                    "Listener %s takes signed tokens whoever their %s is: sasl.oauthbearer.expected.%s is not set",
                    *(listener, name, name),
                )
        tokens = SignedTokens(
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
            fetch = document_at(oauth.sasl_oauthbearer_jwks_endpoint_url, files)
        except ValueError as error:
            raise StartFailed(f"the listener {listener}, {PROPERTY}: {error}") from error
        self._keys = PublishedKeys(listener, oauth, tokens, fetch)
        self._validate = tokens.validate
