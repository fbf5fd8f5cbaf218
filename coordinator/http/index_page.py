"""The page at `/`: HTML files of this package for browsers, plain text for terminals.

The headers of the files make browsers revalidate cached files, and prevent code of other origins.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

from aiohttp import web

from coordinator.broker.server_view import ServerOverview
from coordinator.core.message_text import printable

INDEX_FILE: Final = "index.html"

_CONTENT_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_PAGE_HEADERS: Final = MappingProxyType(
    {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; object-src 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page. `etag` changes with its content."""

    body: bytes
    content_type: str
    etag: str


@cache
def read_page_files() -> Mapping[str, PageFile]:
    """Return all files of the page by their path below `static`. Files of other types, such as licences, are left
    out. The result is cached."""
    found: dict[str, PageFile] = {}
    _read_directory(files(__package__) / "static", "", found)
    return found


def _read_directory(directory: Traversable, prefix: str, found: dict[str, PageFile]) -> None:
    for entry in directory.iterdir():
        if entry.is_dir():
            _read_directory(entry, f"{prefix}{entry.name}/", found)
            continue
        content_type = _CONTENT_TYPES.get(entry.name.rpartition(".")[2])
        if content_type is not None:
            body = entry.read_bytes()
            found[prefix + entry.name] = PageFile(body, content_type, hashlib.sha256(body).hexdigest()[:16])


def create_page_response(request: web.Request, name: str) -> web.Response:
    """Return the response with a file, or 304 for a known `ETag`. Raises HTTPNotFound."""
    file = read_page_files().get(name)
    if file is None:
        raise web.HTTPNotFound
    headers = {**_PAGE_HEADERS, "ETag": f'"{file.etag}"'}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)


DESCRIPTION: Final = (
    "groupd is a standalone Kafka group coordinator, for tests and for debugging and teaching consumer groups. "
    "Kafka clients bootstrap against its listeners as they would against a broker."
)
MAX_TEXT: Final = 1000


def format_index(overview: ServerOverview, paths: Mapping[str, str]) -> str:
    """Return the index as text. `paths` has the other paths with their meaning."""
    lines = [f"groupd {overview.version}, {overview.standing}", "", DESCRIPTION.replace(". ", ".\n"), ""]
    lines += [f"{name}: {printable(value, MAX_TEXT)}" for name, value in _list_facts(overview)]
    lines += ["", *(f"{path:<10} {meaning}" for path, meaning in paths.items())]
    return "\n".join(lines) + "\n"


def _list_facts(overview: ServerOverview) -> list[tuple[str, str]]:
    """Return names and values, in their order in the text."""
    facts = [
        (f"Listener {listener.name}", f"{listener.bound}, advertised as {listener.advertised_text}")
        for listener in overview.listeners
    ]
    groups = str(overview.groups)
    if overview.loaded_partitions < overview.partitions:
        groups += f", from {overview.loaded_partitions} of {overview.partitions} partitions"
    if overview.failed_partitions:
        groups += f" ({overview.failed_partitions} could not be read)"
    facts += [
        ("Data directory", overview.data_dir),
        ("Topics", str(overview.topics)),
        ("Groups", groups),
    ]
    if overview.transactional_ids is not None:
        producers = str(overview.transactional_ids)
        if overview.failed_transaction_partitions:
            producers += f" ({overview.failed_transaction_partitions} partitions could not be read)"
        facts.append(("Transactional ids", producers))
    return facts
