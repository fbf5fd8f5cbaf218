"""The page at `/` for browsers: files of this package, told to cache nothing that may have changed, and to run
nothing but their own."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

from aiohttp import web

INDEX: Final = "index.html"

_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_HEADERS: Final = MappingProxyType(
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
    """One file, as it is sent. `etag` changes with what is in it."""

    body: bytes
    content_type: str
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """All files of the page, by their path below `static`; read once. What is not sent (licences) is left out."""
    found: dict[str, PageFile] = {}
    _read(files("coordinator.console") / "static", "", found)
    return found


def _read(directory: Traversable, prefix: str, found: dict[str, PageFile]) -> None:
    for entry in directory.iterdir():
        if entry.is_dir():
            _read(entry, f"{prefix}{entry.name}/", found)
            continue
        content_type = _TYPES.get(entry.name.rpartition(".")[2])
        if content_type is not None:
            body = entry.read_bytes()
            found[prefix + entry.name] = PageFile(body, content_type, hashlib.sha256(body).hexdigest()[:16])


def page_response(request: web.Request, name: str) -> web.Response:
    """One file. Raises HTTPNotFound."""
    file = page_files().get(name)
    if file is None:
        raise web.HTTPNotFound
    headers = {**_HEADERS, "ETag": f'"{file.etag}"'}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)
