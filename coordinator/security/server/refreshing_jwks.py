"""Fetches the JWKS document of an identity provider and keeps the keys of signed tokens up to date.

Keys are fetched before the listener opens, then at each `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and for
a token with an unknown key, at most every ten seconds: providers rotate keys, but any client can make up a
token with an unknown key. While a fetch fails, the previous keys stay in use.
The document comes by https:, by http: from this machine only, or from a file, bounded in bytes and in time.
Redirects are not followed, since the configured address alone is trusted. Error texts never contain the
address, which may include a password.
Source: Kafka's `RefreshingHttpsJwks` and `VerificationKeyResolverFactory`. Kafka refuses a token with a new
key; here its client waits for the fetch. The bounds and the rule for http: are groupd's own.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

from coordinator.config.listener_settings import OauthSettings
from coordinator.core import clock
from coordinator.core.message_text import StartFailed, printable
from coordinator.core.wire_name import error_name
from coordinator.security.core.signed_token import SignedTokenValidator, parse_jwks
from storage.files import Files
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("OAUTHBEARER")
JWKS_URL_PROPERTY: Final = "sasl.oauthbearer.jwks.endpoint.url"
MIN_INTERVAL_NS: Final = 10_000_000_000
"""The minimum time between two fetches for unknown keys."""
WAIT_S: Final = 10.0
"""The longest time in seconds that a client waits for such a fetch."""
_MAX_WAIT_S: Final = 10.0 * 365 * 24 * 3600

MAX_BYTES: Final = 1024 * 1024
TIMEOUT_S: Final = 10.0
_OK: Final = 200
_CHUNK_BYTES: Final = 64 * 1024

FetchDocument = Callable[[], Awaitable[bytes]]
"""Fetch the document. Raises FetchFailed."""


class FetchFailed(Exception):
    """The document cannot be fetched. The text gives the reason in one line."""


class RefreshingJwks:
    """The keys of the signed tokens of one listener."""

    def __init__(
        self, listener: str, settings: OauthSettings, tokens: SignedTokenValidator, fetch: FetchDocument
    ) -> None:
        """Create the keys of one listener.

        Args:
            listener: the listener's name.
            settings: the settings of the fetches.
            tokens: the validator that receives the keys.
            fetch: fetches the document.
        """
        self._listener = listener
        self._tokens = tokens
        self._fetch = fetch
        self._refresh_s = settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
        self._backoff_s = settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000
        self._max_backoff_s = settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000
        self._failures = 0
        self._fetch_began_ns = 0
        self._fetching: asyncio.Task[None] | None = None
        self._refresh_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetch the keys and start the periodic refresh.

        Raises:
            StartFailed: the document cannot be fetched or has no usable key.
        """
        try:
            await self._load_keys()
        except (FetchFailed, ValueError) as error:
            raise StartFailed(
                f"the listener {self._listener}, {JWKS_URL_PROPERTY}: {printable(str(error))}"
            ) from error
        self._refresh_task = asyncio.create_task(self._refresh_periodically())

    def close(self) -> None:
        """Stop the fetches of keys."""
        for task in (self._refresh_task, self._fetching):
            if task is not None:
                task.cancel()

    async def refresh_for_unknown_key(self) -> None:
        """Fetch the keys for a token with an unknown key, unless the last fetch is too recent."""
        if self._fetching is not None or clock.monotonic_ns() - self._fetch_began_ns >= MIN_INTERVAL_NS:
            await asyncio.wait([self._start_fetch()], timeout=WAIT_S)

    async def reload(self) -> None:
        """Fetch the keys, or join a fetch in progress, and wait for the result. A failure is logged."""
        await asyncio.wait([self._start_fetch()])

    def _start_fetch(self) -> asyncio.Task[None]:
        """Return the running fetch or a new one. Clients share it; cancelling one waiter does not cancel it."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._refresh())
        return self._fetching

    async def _refresh_periodically(self) -> None:
        while True:
            wait_s = self._refresh_s
            if self._failures:
                wait_s = min(
                    wait_s, self._max_backoff_s, self._backoff_s * 2.0 ** min(self._failures - 1, 50)
                )
            await asyncio.sleep(min(wait_s, _MAX_WAIT_S))
            await self.reload()

    async def _refresh(self) -> None:
        """Fetch the keys. Only the first of consecutive failures is logged."""
        try:
            await self._load_keys()
        except Exception as error:  # noqa: BLE001 - an unusable document leaves the previous keys in use
            self._failures += 1
            if self._failures == 1:
                _LOG.error(
                    "Listener %s keeps its previous token keys (%s): %s",
                    *(self._listener, JWKS_URL_PROPERTY, printable(str(error) or error_name(error))),
                )
        else:
            if self._failures:
                _LOG.info(
                    "Listener %s refreshed its token keys after %d failures",
                    *(self._listener, self._failures),
                )
            self._failures = 0
        finally:
            self._fetching = None

    async def _load_keys(self) -> None:
        self._fetch_began_ns = clock.monotonic_ns()
        document = await self._fetch()
        self._tokens.keys = await asyncio.to_thread(parse_jwks, document)


def create_fetcher(url: str, files: Files) -> FetchDocument:
    """Return a function that fetches the document at an address.

    Raises:
        ValueError: the address is invalid.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("it is not a valid URL") from None
    if parts.scheme == "file":
        if host not in ("", "localhost") or not parts.path:
            raise ValueError("a file: URL must name a file of this machine: file:///DIRECTORY/NAME")
        return lambda: _fetch_file(files, unquote(parts.path))
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise ValueError("it must be a URL that begins with https:, file: or http:")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise ValueError(
            "http: is only accepted for this machine, because others could change the keys on the way: use https:"
        )
    return lambda: _fetch_url(url)


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def _fetch_file(files: Files, path: str) -> bytes:
    def read() -> bytes:
        file = files.open_read(path)
        try:
            return file.pread(MAX_BYTES + 1, 0)
        finally:
            file.close()

    try:
        return _check_size(await asyncio.to_thread(read))
    except OSError as error:
        raise FetchFailed(format_error_reason(error)) from error


async def _fetch_url(url: str) -> bytes:
    import aiohttp  # slow to import, and not needed for files

    try:
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != _OK:
                raise FetchFailed(f"the response has status {response.status} instead of {_OK}")
            body = b""
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body = _check_size(body + chunk)
            return body
    except TimeoutError:
        raise FetchFailed(f"no response within {TIMEOUT_S:g} s") from None
    except aiohttp.InvalidURL:
        raise FetchFailed("it is not a valid URL") from None
    except aiohttp.ClientError as problem:
        raise FetchFailed(str(problem) or error_name(problem)) from problem
    except OSError as error:
        raise FetchFailed(format_error_reason(error)) from error


def _check_size(document: bytes) -> bytes:
    if len(document) > MAX_BYTES:
        raise FetchFailed(f"it has more than {MAX_BYTES} bytes")
    return document
