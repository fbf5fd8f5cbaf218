"""The bytes of requests that are being received, over all connections: Kafka's `queued.max.request.bytes`.

A request takes its size from what is free when its size is known and its end has not come. As in Kafka a request is
begun while anything at all is free, so that the largest one gets through in the end; the bound is exceeded by at
most one request. A connection that finds nothing free is not read from until others have been processed. Then those
go on, by turns, that want least and that have waited longest: a small request is not kept behind a crowd of large
ones, and a large one has its turn as well.

Kafka lets whoever has begun a request keep its bytes for as long as it likes. Here, while somebody waits, a part of
the request (`PART`) has to come in each `queued.max.request.stall.ms`, so that nobody waits for ever on those that
send nothing more, or hardly anything.

Source: KIP-72, Kafka's `SimpleMemoryPool`.
"""

from typing import Final, Protocol

PART: Final = 10
"""The tenth part: a request that others wait for is whole, or gone, after ten times that time at most."""


class Receiver(Protocol):
    """Whoever receives requests, one at a time."""

    def memory_taken(self, size_bytes: int) -> None:
        """There is memory for the request that was waited for."""

    @property
    def kept_bytes(self) -> int:
        """How much of the request that is being received has come; all of it, where that is for us to do."""

    def give_up_receiving(self) -> None:
        """Others wait for the memory of this request, and it does not come: the connection is to be closed."""


class RequestMemory:
    """What is free, and who waits for it. `limit_bytes` not above 0: there is no bound."""

    __slots__ = ("_is_for_smallest", "_receiving", "_waiting", "free_bytes", "is_bounded", "taken_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.is_bounded = limit_bytes > 0
        self.free_bytes = limit_bytes
        self.taken_bytes = 0
        self._receiving: dict[Receiver, tuple[int, int]] = {}
        """The size of the request of each, and how much of it had come when others were last seen to wait; -1 when
        none waited since it began."""
        self._waiting: dict[Receiver, int] = {}
        """The size of the request of each, since the longest first."""
        self._is_for_smallest = False

    @property
    def waiting(self) -> int:
        """Connections that are not read from because nothing is free."""
        return len(self._waiting)

    def reserve(self, receiver: Receiver, size_bytes: int) -> bool:
        """Takes the bytes of a request; where nothing is free, the connection waits, and hears of it."""
        assert receiver not in self._waiting, "a connection receives one request at a time"
        if self.is_bounded and self.free_bytes <= 0:
            self._waiting[receiver] = size_bytes
            return False
        self._begin(receiver, size_bytes)
        return True

    def received(self, receiver: Receiver) -> None:
        """The request of this connection has come, or never will; its bytes are taken until they are given back."""
        self._receiving.pop(receiver, None)

    def give_back(self, size_bytes: int) -> None:
        """Frees the bytes of a request, and lets others go on."""
        self._count(-size_bytes)
        while self._waiting and self.free_bytes > 0:
            self._is_for_smallest = not self._is_for_smallest
            if self._is_for_smallest:
                receiver = min(self._waiting, key=self._waiting.__getitem__)
            else:
                receiver = next(iter(self._waiting))
            wanted_bytes = self._waiting.pop(receiver)
            self._begin(receiver, wanted_bytes)
            receiver.memory_taken(wanted_bytes)

    def forget(self, receiver: Receiver) -> None:
        """The connection is gone: it waits no more, and receives nothing."""
        self._waiting.pop(receiver, None)
        self.received(receiver)

    def give_up_stalled(self) -> None:
        """Ends those that have sent less than a part of their request since this was last called, if others have
        waited since. To be called once in each `queued.max.request.stall.ms`."""
        stalled = []
        for receiver, (size_bytes, before_bytes) in self._receiving.items():
            kept_bytes = receiver.kept_bytes
            wanted_bytes = min(size_bytes, before_bytes + max(1, size_bytes // PART))
            if self._waiting and before_bytes >= 0 and kept_bytes < wanted_bytes:
                stalled.append(receiver)
            else:
                self._receiving[receiver] = (size_bytes, kept_bytes if self._waiting else -1)
        for receiver in stalled:
            receiver.give_up_receiving()

    def _begin(self, receiver: Receiver, size_bytes: int) -> None:
        self._count(size_bytes)
        self._receiving[receiver] = (size_bytes, -1)

    def _count(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes
        self.free_bytes -= size_bytes
