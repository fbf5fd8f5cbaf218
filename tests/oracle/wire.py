"""A connection that sends requests one by one, when a session calls it, and reads the responses later."""

import select
import socket
import time
from typing import Any, Final

from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.schema import message_info

ANSWER_TIMEOUT_S: Final = 60


class Closed(Exception):
    """The other side ended the connection instead of answering."""


class NoAnswer(Exception):
    """Nothing came in time."""


class Wire:
    """One connection. Kafka answers in the order of the requests, so the first that is owed is the next."""

    def __init__(self, bootstrap: str, client_id: str | None) -> None:
        """Connect to `bootstrap` (HOST:PORT). Raises OSError."""
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0
        self._received = bytearray()
        self._owed: list[tuple[int, int, bytes]] = []

    def close(self) -> None:
        """Close the connection; pending responses are lost."""
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        """Sends a request. Raises Closed."""
        self._correlation_id += 1
        key = message_info(type(request)).api_key
        frame = bytes(encode_request(key, version, self._correlation_id, self._client_id, request))
        self._owed.append((key, version, frame[8:12]))
        self.send_bytes(frame)

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes. Raises Closed."""
        try:
            self._socket.sendall(data)
        except OSError as problem:
            raise Closed from problem

    def forget(self) -> None:
        """The last request is one that is not answered."""
        del self._owed[-1]

    def take(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The answer to the oldest request that is owed one. Raises Closed, NoAnswer."""
        key, version, correlation_id = self._owed[0]
        frame = self.take_frame(timeout_s)
        del self._owed[0]
        assert frame[:4] == correlation_id, "the answer to another request"
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))

    def take_frame(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        """The next frame, without its size. Raises Closed, NoAnswer."""
        deadline = time.monotonic() + timeout_s
        while (frame := self._whole_frame()) is None:
            if not self._receive(max(0.0, deadline - time.monotonic())):
                raise NoAnswer
        return frame

    def has_answer(self) -> bool:
        """Whether an answer has arrived by now, or the end of the connection."""
        while self._whole_frame(keep=True) is None:
            try:
                if not self._receive(0.0):
                    return False
            except Closed:
                return True
        return True

    def _whole_frame(self, keep: bool = False) -> bytes | None:
        if len(self._received) < 4:
            return None
        end = 4 + int.from_bytes(self._received[:4], "big")
        if len(self._received) < end:
            return None
        frame = bytes(self._received[4:end])
        if not keep:
            del self._received[:end]
        return frame

    def _receive(self, timeout_s: float) -> bool:
        """Whether anything came."""
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        if not ready.poll(timeout_s * 1000):
            return False
        try:
            data = self._socket.recv(1 << 20)
        except OSError as problem:
            raise Closed from problem
        if not data:
            raise Closed
        self._received += data
        return True
