"""A client of a running daemon over HTTP. It loads urllib3, so a command imports it only when it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from coordinator.cli.command_errors import DaemonError, ServerUnreachable
from coordinator.cli.control.daemon_url import DEFAULT_TIMEOUT_S, NO_QUERY, Query, create_api_url
from storage.storage_errors import format_error_reason

if TYPE_CHECKING:
    import ssl

JSON_TYPE: Final = "application/json"
TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"
_NAMESPACES: Final = "namespaces"
_CONNECT_S: Final = 5.0
_CONNECTIONS: Final = 2
_CHUNK_BYTES: Final = 64 * 1024
_URL_HINT: Final = (
    "`groupd serve` starts one; --url or GROUPD_URL says where its HTTP port is (http.listener)."
)


class ApiClient:
    """A client of the HTTP API. Its methods raise ServerUnreachable, and DaemonError for an error response."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        actor: str,
        ssl_context: "ssl.SSLContext | None" = None,
        namespace: str | None = None,
    ) -> None:
        """Create a client, without connecting.

        Args:
            url: The result of `parse_url`.
            token: The control token, or None.
            actor: The name of the user, which the daemon adds to its log and ledger.
            ssl_context: The TLS context for https. None trusts the certificates of the system.
            namespace: The namespace to address, or None for the broker of the daemon.
        """
        self.url = url
        self.namespace = namespace
        self._pool = urllib3.PoolManager(retries=False, maxsize=_CONNECTIONS, ssl_context=ssl_context)
        # The timeout includes the TLS handshake. A daemon loads its TLS modules during the first one.
        self._connect_s = DEFAULT_TIMEOUT_S if url.startswith("https:") else _CONNECT_S
        self._headers = {"X-Groupd-Actor": actor, "User-Agent": "groupd"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        """Close all connections of the client."""
        self._pool.clear()

    def get_json(self, *path: str, query: Query = NO_QUERY) -> Any:
        """Send a GET and return the decoded JSON of the response."""
        return self.request_json("GET", *path, query=query)

    def request_json(
        self,
        method: str,
        *path: str,
        query: Query = NO_QUERY,
        body: object = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Any:
        """Send a request and return the decoded JSON of its response. `body` is sent as JSON; `timeout_s` is in
        seconds.
        """
        data = self._read_body(method, path, query, body, JSON_TYPE, timeout_s)
        try:
            return msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._create_unknown_server_error(method, path) from None

    def request_text(
        self,
        method: str,
        *path: str,
        query: Query = NO_QUERY,
        body: object = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> str:
        """Send a request and return its response as text for people."""
        return self._read_body(method, path, query, body, TEXT, timeout_s).decode(errors="replace")

    @contextmanager
    def open_stream(
        self, *path: str, query: Query, last_id: str | None, idle_timeout_s: float
    ) -> Iterator[Iterator[bytes]]:
        """Yield the bytes of the event stream until it ends or is silent for `idle_timeout_s` seconds.

        `last_id` is the id of the last known event. The stream is closed at the end of the body.
        """
        more = {} if last_id is None else {"Last-Event-ID": last_id}
        response = self._open_response("GET", path, query, None, EVENTS, idle_timeout_s, more)
        try:
            yield self._read_chunks(response, idle_timeout_s)
        finally:
            response.close()

    def _read_chunks(self, response: urllib3.BaseHTTPResponse, idle_timeout_s: float) -> Iterator[bytes]:
        with self._translate_errors(idle_timeout_s):
            while piece := response.read1(_CHUNK_BYTES):
                yield piece

    def _read_body(
        self, method: str, path: tuple[str, ...], query: Query, body: object, accept: str, timeout_s: float
    ) -> bytes:
        response = self._open_response(method, path, query, body, accept, timeout_s, {})
        with self._translate_errors(timeout_s):
            return response.data

    def _open_response(
        self,
        method: str,
        path: tuple[str, ...],
        query: Query,
        body: object,
        accept: str,
        timeout_s: float,
        more: dict[str, str],
    ) -> urllib3.BaseHTTPResponse:
        """Return the response before its body is read. Raises DaemonError."""
        headers = self._headers | {"Accept": accept} | more
        data = None
        if method != "GET":
            headers["Content-Type"] = JSON_TYPE
        if body is not None:
            data = msgspec.json.encode(body)
        with self._translate_errors(timeout_s):
            response = self._pool.request(
                method,
                create_api_url(self.url, self._prefix_namespace(path), query),
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._connect_s, read=timeout_s),
                redirect=False,
                preload_content=False,
            )
            if 200 <= response.status < 300:
                return response
            said = response.data
        raise self._create_error(response.status, said, method, path)

    def _prefix_namespace(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path of a namespace for a path of the daemon. The list of namespaces has a single path."""
        if self.namespace is None or path[0] == _NAMESPACES:
            return path
        return (_NAMESPACES, self.namespace, *path)

    def _create_error(self, status: int, data: bytes, method: str, path: tuple[str, ...]) -> Exception:
        try:
            problem = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._create_unknown_server_error(method, path, f"it answers {status}")
        return DaemonError(status, problem)

    def _create_unknown_server_error(
        self, method: str, path: tuple[str, ...], how: str = "the response is not JSON"
    ) -> ServerUnreachable:
        operation = f"{method} /v1/{'/'.join(path)}"
        return ServerUnreachable(
            f"{self.url} is not a compatible groupd: {operation} failed ({how}). {_URL_HINT}"
        )

    @contextmanager
    def _translate_errors(self, timeout_s: float) -> Iterator[None]:
        """Turn errors of the transport into a ServerUnreachable with one sentence and a hint."""
        try:
            yield
        except (NewConnectionError, ConnectTimeoutError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else TimeoutError()
            raise ServerUnreachable(
                f"no daemon answers at {self.url}: {format_error_reason(cause)}. {_URL_HINT}"
            ) from error
        except ReadTimeoutError as error:
            why = (
                f"the daemon at {self.url} did not answer within {timeout_s:g} s: it is stopped or very busy"
            )
            raise ServerUnreachable(why) from error
        except ProtocolError as error:
            why = f"{self.url} closed the connection, or does not speak HTTP. "
            why += "Use the HTTP port, not the port of Kafka clients, and https if the port has TLS."
            raise ServerUnreachable(f"{why} {_URL_HINT}") from error
        except SSLError as error:
            raise ServerUnreachable(
                f"the TLS handshake with {self.url} failed: {_describe_tls_error(error)}"
            ) from error
        except HTTPError as error:
            raise ServerUnreachable(f"cannot reach a daemon at {self.url}: {error}. {_URL_HINT}") from error


def _describe_tls_error(error: SSLError) -> str:
    """Return the reason of a failed handshake from OpenSSL, with the remedy."""
    cause = error.args[0] if error.args else error
    if verified := getattr(cause, "verify_message", None):
        return f"{verified}. Set --ca-file or GROUPD_CA_FILE to the CA of the daemon's certificate."
    reason = getattr(cause, "reason", None) or str(error)
    return (
        f"{str(reason).lower().replace('_', ' ')}. Check that the URL has a port of http.listener with TLS."
    )
