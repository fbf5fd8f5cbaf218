"""The keys that an identity provider publishes, kept up to date.

They are fetched before the listener opens; then again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`; and for a
token whose key is not among them, every ten seconds at most: a provider changes its keys now and then, and anybody
can make up a token of any key. While they cannot be had, those of before stay.

Source: Kafka's `RefreshingHttpsJwks`. There the client whose token has a new key is refused, and has to come again.
"""

import asyncio
import logging
from typing import Final

from coordinator import clock
from coordinator.config.listener_settings import OauthSettings
from coordinator.net.peer import printable
from coordinator.security.signed_token import SignedTokens, read_keys
from coordinator.server.authentication.key_document import FetchDocument, NotFetched
from coordinator.server.start_failed import StartFailed

_LOG: Final = logging.getLogger("OAUTHBEARER")
PROPERTY: Final = "sasl.oauthbearer.jwks.endpoint.url"
MIN_INTERVAL_NS: Final = 10_000_000_000
"""Between two fetches for keys that are not there."""
WAIT_S: Final = 10.0
"""How long a client waits for them."""
_LONGEST_S: Final = 10.0 * 365 * 24 * 3600


class PublishedKeys:
    """Of one listener."""

    def __init__(
        self, listener: str, settings: OauthSettings, tokens: SignedTokens, fetch: FetchDocument
    ) -> None:
        """In: who is given the keys; what fetches the document that they are in."""
        self._listener = listener
        self._tokens = tokens
        self._fetch = fetch
        self._refresh_s = settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
        self._backoff_s = settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000
        self._max_backoff_s = settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000
        self._failures = 0
        self._began_ns = 0
        self._fetching: asyncio.Task[None] | None = None
        self._upkeep: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetches the keys, and sees to it from then on. Raises StartFailed."""
        try:
            await self._load()
        except (NotFetched, ValueError) as error:
            raise StartFailed(
                f"the listener {self._listener}, {PROPERTY}: {printable(str(error))}"
            ) from error
        self._upkeep = asyncio.create_task(self._keep_up())

    def close(self) -> None:
        """Fetches nothing any more."""
        for task in (self._upkeep, self._fetching):
            if task is not None:
                task.cancel()

    async def read_for_unknown(self) -> None:
        """Fetches the keys for a token that has another one, if they may be other ones by now."""
        if self._fetching is not None or clock.monotonic_ns() - self._began_ns >= MIN_INTERVAL_NS:
            await asyncio.wait([self._begin()], timeout=WAIT_S)

    async def read_again(self) -> None:
        """Fetches the keys."""
        await asyncio.wait([self._begin()])

    def _begin(self) -> asyncio.Task[None]:
        """A fetch, which many may wait for; who goes away leaves it to the others."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._renew())
        return self._fetching

    async def _keep_up(self) -> None:
        while True:
            wait_s = self._refresh_s
            if self._failures:
                wait_s = min(
                    wait_s, self._max_backoff_s, self._backoff_s * 2.0 ** min(self._failures - 1, 50)
                )
            await asyncio.sleep(min(wait_s, _LONGEST_S))
            await self.read_again()

    async def _renew(self) -> None:
        """Fetches the keys; of what fails, the first time has a line."""
        try:
            await self._load()
        except Exception as error:  # noqa: BLE001 - whatever is published, those who are let in stay
            self._failures += 1
            if self._failures == 1:
                _LOG.error(
                    "Listener %s keeps the keys of tokens that it has (%s): %s",
                    *(self._listener, PROPERTY, printable(str(error) or type(error).__name__)),
                )
        else:
            if self._failures:
                _LOG.info(
                    "Listener %s has read the keys of tokens again, after %d failures",
                    *(self._listener, self._failures),
                )
            self._failures = 0
        finally:
            self._fetching = None

    async def _load(self) -> None:
        self._began_ns = clock.monotonic_ns()
        document = await self._fetch()
        self._tokens.keys = await asyncio.to_thread(read_keys, document)
