"""Requests and responses of the API as values, without I/O. Both clients use them.

An `Operation` describes a call. `ApiEndpoint.create_request` turns it into an HTTP request, and
`ApiEndpoint.read_answer` turns the HTTP response into a value or an exception.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from groupd_client.deprecated_names import find_renamed, warn_renamed
from groupd_client.problem import Unreachable, create_problem
from groupd_client.value import as_value
from groupd_client.version import __version__

DEFAULT_URL: Final = "http://127.0.0.1:9080"
PATIENCE_S: Final = 30.0
"""The time for a response in seconds, in addition to the wait of the operation."""

DEFAULT_WAIT: Final = "10s"
DEFAULT_SETTLE: Final = "5s"

_NAMESPACES: Final = "namespaces"
_JSON: Final = "application/json"
_PROBLEM: Final = "application/problem+json"
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

Span = int | str | timedelta
"""A duration: milliseconds, "45s", or a timedelta."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of the API. `path` has the names below /v1, or below the namespace. `lasts_s` is the longest wait of
    the daemon in seconds. `is_text` requests the response as text for people."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    lasts_s: float = 0.0
    is_text: bool = False


class Request(NamedTuple):
    """An HTTP request of the API."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """The address of a broker in a daemon, and the identity of the client. `namespace` None means the daemon's
    own broker. `actor` appears in the daemon's log and ledger."""

    url: str
    token: str | None = None
    actor: str | None = None
    namespace: str | None = None

    def create_request(self, operation: Operation) -> Request:
        """Return the HTTP request of an operation."""
        path = operation.path
        if self.namespace is not None and path[:1] != (_NAMESPACES,):
            path = (_NAMESPACES, self.namespace, *path)
        headers = {
            "Accept": "text/plain" if operation.is_text else _JSON,
            "User-Agent": f"groupd-client/{__version__}",
        }
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.actor:
            headers["X-Groupd-Actor"] = self.actor.encode("ascii", "replace").decode()
        body = None
        if operation.method != "GET":
            headers["Content-Type"] = _JSON
        if operation.body is not None:
            body = json.dumps({name: _plain(value) for name, value in operation.body.items()}).encode()
        query = urlencode(drop_none(operation.query))
        url = "/".join([self.url, "v1", *map(_quoted, path)]) + (f"?{query}" if query else "")
        return Request(operation.method, url, headers, body, operation.lasts_s + PATIENCE_S)

    def read_answer(self, operation: Operation, status: int, content_type: str, data: bytes) -> Any:
        """Return the value of a response. Raises Problem, and Unreachable if the URL is not a groupd with this
        operation."""
        __tracebackhide__ = True
        kind = content_type.partition(";")[0].strip().lower()
        if kind in (_JSON, _PROBLEM):
            try:
                document = json.loads(data)
            except ValueError:
                raise self._create_unknown_server_error(operation, "it sent invalid JSON") from None
            if 200 <= status < 300:
                return as_value(document)
            if kind == _PROBLEM and isinstance(document, dict):
                if document.get("type") in ("urn:groupd:no-such-path", "urn:groupd:no-such-method"):
                    raise self._create_unknown_server_error(operation, "it has no such operation")
                raise create_problem(status, document)
        if 200 <= status < 300 and (operation.is_text or not data):
            return data.decode(errors="replace") if operation.is_text else None
        raise self._create_unknown_server_error(operation, f"it sent {status} {content_type}".strip())

    def create_unreachable(self, why: str) -> Unreachable:
        """Create the error for a failed connection."""
        return Unreachable(
            f"no groupd answers at {self.url}: {why}. Start one with `groupd serve`; it prints its address."
        )

    def request(self, operation: Operation) -> Request:
        """Call `create_request`. Deprecated."""
        warn_renamed("Door.request", "ApiEndpoint.create_request")
        return self.create_request(operation)

    def answer(self, operation: Operation, status: int, content_type: str, data: bytes) -> Any:
        """Call `read_answer`. Deprecated."""
        __tracebackhide__ = True
        warn_renamed("Door.answer", "ApiEndpoint.read_answer")
        return self.read_answer(operation, status, content_type, data)

    def unreachable(self, why: str) -> Unreachable:
        """Call `create_unreachable`. Deprecated."""
        warn_renamed("Door.unreachable", "ApiEndpoint.create_unreachable")
        return self.create_unreachable(why)

    def _create_unknown_server_error(self, operation: Operation, how: str) -> Unreachable:
        request = f"{operation.method} /v1/{'/'.join(operation.path)}"
        return Unreachable(
            f"{self.url} is not a groupd that groupd-client {__version__} can use: for {request}, {how}. "
            f"Use the same version for daemon and client; `groupd --version` prints the daemon's."
        )


def parse_endpoint(url: str | None, token: str | None, actor: str | None) -> ApiEndpoint:
    """Return the endpoint of a URL or HOST:PORT; None is the default address of a daemon. Raises ValueError."""
    text = (url or DEFAULT_URL).strip()
    if "://" not in text:
        text = f"http://{text}"
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url} is not a URL such as {DEFAULT_URL}")
    return ApiEndpoint(text.rstrip("/"), token, actor)


def seconds(span: Span) -> float:
    """Return a duration in seconds. Raises ValueError."""
    if isinstance(span, timedelta):
        return span.total_seconds()
    if isinstance(span, int):
        return span / 1000
    text = span.strip()
    for unit, unit_s in _UNITS_S.items():
        number = text.removesuffix(unit).strip()
        if text.endswith(unit) and number.replace(".", "", 1).isdigit():
            return float(number) * unit_s
    raise ValueError(
        f"{span!r} is not a duration: use 1500 (milliseconds), '1500ms', '45s', '5m', '2h' or '8d'"
    )


def drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with a value other than None."""
    return {name: value for name, value in fields.items() if value is not None}


def format_property(value: Any) -> str:
    """Return the text of a property's value in a properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """Return the JSON form of a value."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return value


def _quoted(name: str) -> str:
    """Quote a name for a path. Dots are escaped in a name of dots only, which would otherwise be a relative
    path."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


if not TYPE_CHECKING:  # type checkers report the former names

    def __getattr__(name: str) -> object:
        """Return `ApiEndpoint` for `Door`, and `parse_endpoint` for `door`. Deprecated."""
        return find_renamed(__name__, name, {"Door": ApiEndpoint, "door": parse_endpoint})
