"""A running daemon, asked over HTTP. Loads urllib3: a command imports this when it runs, and not before."""

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

from coordinator.cli.control.daemon_url import api_url
from coordinator.cli.control.failure import Refused, Unreachable
from coordinator.cli.control.question import NOTHING, PATIENCE_S, Query
from storage.os_error import reason_of

if TYPE_CHECKING:
    import ssl

JSON: Final = "application/json"
TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"
_NAMESPACES: Final = "namespaces"
_CONNECT_S: Final = 5.0
_CONNECTIONS: Final = 2
_PIECE_BYTES: Final = 64 * 1024
_WHERE: Final = "`groupd serve` starts one; --url or GROUPD_URL says where its HTTP port is (http.listener)."


class ApiClient:
    """See the top of this file. Every method raises Unreachable, and Refused with what the daemon says to it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        actor: str,
        trusted: "ssl.SSLContext | None" = None,
        namespace: str | None = None,
    ) -> None:
        """In: what `parse_url` gave; who asks, in words that the daemon's log and ledger repeat; for https, what to
        shake hands with, None for what trusts as the system does; which of the daemon's brokers is asked, where
        it is not its own."""
        self.url = url
        self.namespace = namespace
        self._pool = urllib3.PoolManager(retries=False, maxsize=_CONNECTIONS, ssl_context=trusted)
        # The handshake counts as well, and waits while a daemon that nobody has asked yet loads what answers.
        self._connect_s = PATIENCE_S if url.startswith("https:") else _CONNECT_S
        self._headers = {"X-Groupd-Actor": actor, "User-Agent": "groupd"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        """Closes its connections."""
        self._pool.clear()

    def get(self, *path: str, query: Query = NOTHING) -> Any:
        """What the daemon answers, from JSON."""
        return self.ask("GET", *path, query=query)

    def ask(
        self,
        method: str,
        *path: str,
        query: Query = NOTHING,
        body: object = None,
        patience_s: float = PATIENCE_S,
    ) -> Any:
        """The same of any method. In: a body to be written as JSON; how long the answer may take."""
        data = self._read(method, path, query, body, JSON, patience_s)
        try:
            return msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._stranger(method, path) from None

    def text(
        self,
        method: str,
        *path: str,
        query: Query = NOTHING,
        body: object = None,
        patience_s: float = PATIENCE_S,
    ) -> str:
        """The same in words for people."""
        return self._read(method, path, query, body, TEXT, patience_s).decode(errors="replace")

    @contextmanager
    def stream(
        self, *path: str, query: Query, last_id: str | None, silence_s: float
    ) -> Iterator[Iterator[bytes]]:
        """The bytes of a stream of events, as they come, until it ends or is silent for too long. In: the last
        event that was seen. The stream is closed at the end of the body."""
        more = {} if last_id is None else {"Last-Event-ID": last_id}
        response = self._open("GET", path, query, None, EVENTS, silence_s, more)
        try:
            yield self._pieces(response, silence_s)
        finally:
            response.close()

    def _pieces(self, response: urllib3.BaseHTTPResponse, silence_s: float) -> Iterator[bytes]:
        with self._in_words(silence_s):
            while piece := response.read1(_PIECE_BYTES):
                yield piece

    def _read(
        self, method: str, path: tuple[str, ...], query: Query, body: object, accept: str, patience_s: float
    ) -> bytes:
        response = self._open(method, path, query, body, accept, patience_s, {})
        with self._in_words(patience_s):
            return response.data

    def _open(
        self,
        method: str,
        path: tuple[str, ...],
        query: Query,
        body: object,
        accept: str,
        patience_s: float,
        more: dict[str, str],
    ) -> urllib3.BaseHTTPResponse:
        """The answer with its body still to come. Raises Refused."""
        headers = self._headers | {"Accept": accept} | more
        data = None
        if method != "GET":
            headers["Content-Type"] = JSON
        if body is not None:
            data = msgspec.json.encode(body)
        with self._in_words(patience_s):
            response = self._pool.request(
                method,
                api_url(self.url, self._placed(path), query),
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._connect_s, read=patience_s),
                redirect=False,
                preload_content=False,
            )
            if 200 <= response.status < 300:
                return response
            said = response.data
        raise self._refusal(response.status, said, method, path)

    def _placed(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Where a namespace has what the daemon has at a path; namespaces are the daemon's."""
        if self.namespace is None or path[0] == _NAMESPACES:
            return path
        return (_NAMESPACES, self.namespace, *path)

    def _refusal(self, status: int, said: bytes, method: str, path: tuple[str, ...]) -> Exception:
        try:
            problem = msgspec.json.decode(said, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._stranger(method, path, f"it answers {status}")
        return Refused(status, problem)

    def _stranger(
        self, method: str, path: tuple[str, ...], how: str = "its answer is no JSON"
    ) -> Unreachable:
        asked = f"{method} /v1/{'/'.join(path)}"
        return Unreachable(f"what answers at {self.url} is no groupd that knows {asked}: {how}. {_WHERE}")

    @contextmanager
    def _in_words(self, patience_s: float) -> Iterator[None]:
        """Makes what goes wrong on the way one sentence."""
        try:
            yield
        except (NewConnectionError, ConnectTimeoutError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else TimeoutError()
            raise Unreachable(f"no daemon answers at {self.url}: {reason_of(cause)}. {_WHERE}") from error
        except ReadTimeoutError as error:
            why = f"the daemon at {self.url} said nothing for {patience_s:g} s: is it stopped, or very busy?"
            raise Unreachable(why) from error
        except ProtocolError as error:
            why = f"{self.url} closed the connection, or does not speak HTTP. "
            why += "Is that the port of Kafka clients, or one that wants https?"
            raise Unreachable(f"{why} {_WHERE}") from error
        except SSLError as error:
            raise Unreachable(f"no TLS with {self.url}: {_words_of_tls(error)}") from error
        except HTTPError as error:
            raise Unreachable(f"no daemon can be asked at {self.url}: {error}. {_WHERE}") from error


def _words_of_tls(error: SSLError) -> str:
    """Why it failed, as OpenSSL says it, and what may be done."""
    cause = error.args[0] if error.args else error
    if verified := getattr(cause, "verify_message", None):
        return f"{verified}. --ca-file or GROUPD_CA_FILE says whose certificate is good."
    said = getattr(cause, "reason", None) or str(error)
    return f"{str(said).lower().replace('_', ' ')}. Is that the port of http.listener, and has it TLS?"
