"""The bytes of requests that are being received, over all connections: Kafka's `queued.max.request.bytes`.

A request takes its size from what is free when its size is known and its end has not come. As in Kafka a request is
begun while anything at all is free, so that the largest one gets through in the end; the bound is exceeded by at
most one request. A connection that finds nothing free is not read from until others have been processed; they are
served in the order in which they came.

Source: KIP-72, Kafka's `SimpleMemoryPool`.
"""

from typing import Protocol


class Receiver(Protocol):
    """Whoever receives requests, one at a time."""

    def memory_taken(self, size_bytes: int) -> None:
        """There is memory for the request that was waited for."""


class RequestMemory:
    """What is free, and who waits for it. `limit_bytes` not above 0: there is no bound."""

    __slots__ = ("_waiting", "free_bytes", "is_bounded", "taken_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.is_bounded = limit_bytes > 0
        self.free_bytes = limit_bytes
        self.taken_bytes = 0
        self._waiting: dict[Receiver, int] = {}

    @property
    def waiting(self) -> int:
        """Connections that are not read from because nothing is free."""
        return len(self._waiting)

    def take(self, receiver: Receiver, size_bytes: int) -> bool:
        """Takes the bytes of a request; where nothing is free, the connection waits, and hears of it."""
        assert receiver not in self._waiting, "a connection receives one request at a time"
        if self.is_bounded and self.free_bytes <= 0:
            self._waiting[receiver] = size_bytes
            return False
        self._taken(size_bytes)
        return True

    def give_back(self, size_bytes: int) -> None:
        """Frees the bytes of a request, and lets those go on that have waited longest."""
        self._taken(-size_bytes)
        while self._waiting and self.free_bytes > 0:
            receiver, wanted_bytes = next(iter(self._waiting.items()))
            del self._waiting[receiver]
            self._taken(wanted_bytes)
            receiver.memory_taken(wanted_bytes)

    def forget(self, receiver: Receiver) -> None:
        """The connection is gone: it waits no more."""
        self._waiting.pop(receiver, None)

    def _taken(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes
        self.free_bytes -= size_bytes
