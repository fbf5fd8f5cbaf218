"""Where a daemon answers HTTP: what people write, and the paths below it."""

from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from coordinator.cli.control.question import Query

DEFAULT_URL: Final = "http://127.0.0.1:9080"
_SCHEMES: Final = ("http", "https")


def parse_url(text: str) -> str:
    """A URL without a slash at its end. In: a URL, or HOST:PORT. Raises ValueError with a sentence."""
    url = text.strip()
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"{text} begins neither with http:// nor with https://")
    if not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{text} is not a URL such as {DEFAULT_URL}")
    if parts.username is not None:
        raise ValueError(
            f"{parts.scheme}://…@{parts.hostname} has a user in it: what the daemon knows is --token"
        )
    if not (parts.netloc.isascii() and parts.netloc.isprintable()):
        raise ValueError(f"{parts.netloc!r} cannot be the name of a host")
    _ = parts.port  # raises ValueError
    return url.rstrip("/")


def api_url(url: str, path: tuple[str, ...], query: Query) -> str:
    """The URL of an operation. In: what `parse_url` gave; the names in its path, which may hold anything; what is
    asked for, None where it is not."""
    names = "/".join(map(_quoted, path))
    asked = {name: value for name, value in query.items() if value is not None}
    text = urlencode(asked, doseq=True)
    return f"{url}/v1/{names}" + (f"?{text}" if text else "")


def _quoted(name: str) -> str:
    """A name in a path. One of dots only would mean a place in the path."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
