"""One connection to a broker, a question at a time."""

import socket
from typing import Any, Final, TypeVar

from pipeline.errors import BadInput
from protocol.apis import ApiKey
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.primitives import Malformed
from storage.storage_errors import format_error_reason

MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
TIMEOUT_S: Final = 30.0
CLIENT_ID: Final = "groupd-pipeline"

T = TypeVar("T")


class Connection:
    """To the broker at `host`:`port`, in plain text. Everything that fails raises BadInput with the address."""

    def __init__(self, host: str, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self._address = f"{host}:{port}"
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise BadInput(f"{self._address}: cannot be reached: {format_error_reason(error)}") from error
        except UnicodeError as error:
            raise BadInput(f"{self._address}: is not a valid host name") from error

    def ask(self, key: ApiKey, version: int, request: Any, response: type[T]) -> T:
        """Send a request and return the response."""
        self._correlation_id += 1
        try:
            self._socket.sendall(encode_request(key, version, self._correlation_id, CLIENT_ID, request))
            size = int.from_bytes(self._read(4), "big", signed=True)
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                raise BadInput(
                    f"{self._address}: sent a response size of {size} bytes: is this a Kafka listener?"
                )
            frame = self._read(size)
            if int.from_bytes(frame[:4], "big") != self._correlation_id:
                raise BadInput(f"{self._address}: sent the response to another request")
            return decode(response, version, frame, response_body_position(key, version, frame))
        except (OSError, Malformed) as error:
            raise BadInput(f"{self._address}: does not answer: {format_error_reason(error)}") from error

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(min(length - len(data), 1024 * 1024))
            if not part:
                raise BadInput(f"{self._address}: closed the connection")
            data += part
        return bytes(data)

    def close(self) -> None:
        """Hangs up."""
        self._socket.close()
