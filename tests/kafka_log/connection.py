"""A blocking connection that speaks the protocol by hand, to groupd and to Kafka alike."""

import socket
from typing import Any, Self

from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.schema import message_info

TIMEOUT_S = 60


class Connection:
    """One connection; one request at a time."""

    def __init__(self, bootstrap: str, client_id: str = "test-client") -> None:
        """Connect to HOST:PORT. Raises OSError."""
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def call(self, request: Any, version: int) -> Any:
        """Sends a request and waits for its answer."""
        self._correlation_id += 1
        key = message_info(type(request)).api_key
        self._socket.sendall(
            bytes(encode_request(key, version, self._correlation_id, self._client_id, request))
        )
        frame = self._receive(int.from_bytes(self._receive(4), "big"))
        assert int.from_bytes(frame[:4], "big") == self._correlation_id
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))

    def _receive(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._socket.recv(size)
            assert part, "the broker closed the connection"
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
