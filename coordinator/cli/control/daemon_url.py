"""The URL of a daemon and of its operations, with the default timeout and query of a request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

DEFAULT_TIMEOUT_S: Final = 30.0
"""The timeout of a request that does not wait for an event, in seconds."""

Query = Mapping[str, str | int | tuple[str, ...] | None]
"""Query parameters by name. A list is sent as repeated parameters, and None is omitted."""

NO_QUERY: Final[Query] = MappingProxyType({})


DEFAULT_URL: Final = "http://127.0.0.1:9080"
_SCHEMES: Final = ("http", "https")


def parse_url(text: str) -> str:
    """Return the URL of a text that is a URL or HOST:PORT, without a final slash. Raises ValueError."""
    url = text.strip()
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"{text} must begin with http:// or https://")
    if not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{text} is not a URL such as {DEFAULT_URL}")
    if parts.username is not None:
        raise ValueError(f"{parts.scheme}://…@{parts.hostname} must not contain a user: use --token")
    if not (parts.netloc.isascii() and parts.netloc.isprintable()):
        raise ValueError(f"{parts.netloc!r} is not a valid host name")
    _ = parts.port  # raises ValueError
    return url.rstrip("/")


def create_api_url(url: str, path: tuple[str, ...], query: Query) -> str:
    """Return the URL of an operation.

    Args:
        url: The result of `parse_url`.
        path: The segments of the path below `/v1`. They may contain any character.
        query: The query parameters.
    """
    names = "/".join(map(_quote_name, path))
    given = {name: value for name, value in query.items() if value is not None}
    text = urlencode(given, doseq=True)
    return f"{url}/v1/{names}" + (f"?{text}" if text else "")


def _quote_name(name: str) -> str:
    """Quote a name for a path. Dots are escaped in a name of dots only, which would otherwise be a relative
    path."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
