"""What an identity provider publishes its keys in, fetched: by https:, by http: on this machine, or from a file.

What comes is bounded in bytes and in time. A redirect is not followed: keys are good for who publishes them at the
address that was set, and for nobody else. No error says the address, which may have a password in it.

Source: Kafka's `VerificationKeyResolverFactory`; the bounds and http: for this machine alone are groupd's own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

from storage.files import Files
from storage.os_error import reason_of

MAX_BYTES: Final = 1024 * 1024
TIMEOUT_S: Final = 10.0
_OK: Final = 200
_CHUNK_BYTES: Final = 64 * 1024

FetchDocument = Callable[[], Awaitable[bytes]]
"""Raises NotFetched."""


class NotFetched(Exception):
    """What is published cannot be had. The text says why, in one line."""


def document_at(url: str, files: Files) -> FetchDocument:
    """What fetches the document at an address. Raises ValueError for one that is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("this is no address") from None
    if parts.scheme == "file":
        if host not in ("", "localhost") or not parts.path:
            raise ValueError("a file: is one of this machine (file:///DIRECTORY/NAME)")
        return lambda: _from_file(files, unquote(parts.path))
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise ValueError("this is no address that begins with https:, file: or http:")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise ValueError(
            "whoever stands between could change keys that come by http:; it is for this machine alone"
        )
    return lambda: _from_web(url)


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def _from_file(files: Files, path: str) -> bytes:
    def read() -> bytes:
        file = files.open_read(path)
        try:
            return file.pread(MAX_BYTES + 1, 0)
        finally:
            file.close()

    try:
        return _bounded(await asyncio.to_thread(read))
    except OSError as error:
        raise NotFetched(reason_of(error)) from error


async def _from_web(url: str) -> bytes:
    import aiohttp  # takes as long as the whole start, and who reads a file needs none of it

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
                raise NotFetched(f"the answer is {response.status}, and not {_OK}")
            body = b""
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body = _bounded(body + chunk)
            return body
    except TimeoutError:
        raise NotFetched(f"there was no answer within {TIMEOUT_S:g} s") from None
    except aiohttp.InvalidURL:
        raise NotFetched("this is no address") from None
    except aiohttp.ClientError as problem:
        raise NotFetched(str(problem) or type(problem).__name__) from problem
    except OSError as error:
        raise NotFetched(reason_of(error)) from error


def _bounded(document: bytes) -> bytes:
    if len(document) > MAX_BYTES:
        raise NotFetched(f"it has more than {MAX_BYTES} bytes")
    return document
