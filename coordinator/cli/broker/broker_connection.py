"""A blocking connection to one broker over Kafka's protocol, with one request at a time, and the interface
that commands need for requests. It connects with the first request.
"""

import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from coordinator.cli.broker.client_security import ClientSecurity
from coordinator.cli.command_errors import ServerUnreachable
from protocol.apis import APIS, ApiKey
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request, response_body_position
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.primitives import Malformed
from protocol.schema import message_info
from storage.files import OsFiles
from storage.storage_errors import format_error_reason


class RequestSender(Protocol):
    """A connection to one broker, or a client of a cluster."""

    def send_request(self, request: Any) -> Any:
        """Send a request to a broker and return its answer."""


_CLIENT_ID: Final = "groupd"
_NO_MAX_VERSIONS: Final[Mapping[int, int]] = MappingProxyType({})
_MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
_TLS_ALERT: Final = b"\x15\x03"
_CONFIG_HINT: Final = "Use --command-config with a file that sets security.protocol, ..."


class BrokerConnection:
    """A connection to one broker. It connects with the first request."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        security: ClientSecurity,
        client_id: str = _CLIENT_ID,
        max_versions: Mapping[int, int] = _NO_MAX_VERSIONS,
    ) -> None:
        """Create a connection to a broker, without connecting.

        `timeout_s` applies to connecting and to each response. `security` has TLS and the login. All requests
        carry `client_id`. `max_versions` has the newest version to use of some APIs, by API key.
        """
        self._client_id = client_id
        self._max_versions = max_versions
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._security = security
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._versions: dict[int, range] = {}

    def send_request(self, request: Any, timeout_s: float | None = None) -> Any:
        """Return the response, in the newest version that both sides support.

        `timeout_s` replaces the usual timeout. Raises ServerUnreachable; BrokerError if the login fails.
        """
        try:
            opened = self._open() if self._socket is None else self._socket
            opened.settimeout(self._timeout_s if timeout_s is None else timeout_s)
            return self._send_negotiated(request)
        except (OSError, EOFError, Malformed, UnicodeError) as error:
            raise ServerUnreachable(f"{self.name} does not answer: {self._describe_error(error)}") from error

    def count_apis(self) -> int:
        """Return the number of APIs of the broker. Raises the errors of `send_request`."""
        return len(self.fetch_versions())

    def fetch_versions(self) -> dict[int, range]:
        """Return the versions that the broker serves, by API key. Raises as `send_request` does."""
        self.send_request(ApiVersionsRequest())
        return self._versions

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._socket is not None:
            self._socket.close()

    @property
    def name(self) -> str:
        """The address of the broker as `HOST:PORT`."""
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def _open(self) -> socket.socket:
        self._socket = socket.create_connection((self._host, self._port), self._timeout_s)
        if self._security.tls is not None:
            self._socket = self._wrap_in_tls(self._socket)
        served = self._exchange_frames(ApiKey.API_VERSIONS, ApiVersionsRequest(), 0)
        if served.error_code != ErrorCode.NONE:
            raise Malformed(f"it answered ApiVersions with error {served.error_code}")
        self._versions = {
            each.api_key: range(each.min_version, each.max_version + 1) for each in served.api_keys
        }
        if self._security.login is not None:
            from coordinator.cli.broker.broker_login import log_in  # and the mechanisms of SASL

            log_in(self._security.login, self._send_negotiated)
        return self._socket

    def _wrap_in_tls(self, plain: socket.socket) -> socket.socket:
        """Wrap a socket in TLS. Raises ServerUnreachable, OSError."""
        from coordinator.security.server.tls_context import read_client_context  # imports cryptography
        from coordinator.security.server.tls_stores import KeyStoreError

        assert self._security.tls is not None
        try:
            context = read_client_context(self._security.tls, OsFiles())
        except KeyStoreError as error:
            raise ServerUnreachable(str(error)) from error
        return context.wrap_socket(plain, server_hostname=self._host)

    def _send_negotiated(self, request: Any) -> Any:
        key = message_info(type(request)).api_key
        common = [version for version in self._versions.get(key, ()) if version in APIS[key].versions]
        if not common:
            raise ServerUnreachable(
                f"{self.name} does not serve {APIS[key].name} in a version that groupd knows"
            )
        return self._exchange_frames(key, request, min(max(common), self._max_versions.get(key, max(common))))

    def _exchange_frames(self, key: int, request: Any, version: int) -> Any:
        assert self._socket is not None
        self._correlation_id += 1
        self._socket.sendall(encode_request(key, version, self._correlation_id, self._client_id, request))
        head = self._receive(4)
        size = int.from_bytes(head, "big", signed=True)
        if head.startswith(_TLS_ALERT):
            raise Malformed(f"it requires TLS. {_CONFIG_HINT}")
        if not 4 <= size <= _MAX_FRAME_BYTES:
            raise Malformed(f"it announced a response of {size} bytes")
        frame = self._receive(size)
        if int.from_bytes(frame[:4], "big") != self._correlation_id:
            raise Malformed("its response belongs to another request")
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))

    def _receive(self, length: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise EOFError("the connection was closed")
            data += part
        return bytes(data)

    def _describe_error(self, error: Exception) -> str:
        """Describe a failed connection and its likely remedy."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {error.verify_message} (ssl.truststore.location)"
        if isinstance(error, ssl.SSLError):
            cause = (error.reason or str(error)).lower().replace("_", " ")
            return (
                f"the TLS handshake failed: {cause}. Check that the listener has TLS and trusts this "
                "client's certificate"
            )
        reason = format_error_reason(error)
        is_plain = self._security.tls is None and self._security.login is None
        if is_plain and isinstance(error, (EOFError, ConnectionResetError)):
            reason += f". The listener may require TLS or a login. {_CONFIG_HINT}"
        return reason
