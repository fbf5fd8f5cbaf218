"""Limits of connections, of the memory for requests being received (`queued.max.request.bytes`), and of
responses that peers do not read. Source: KIP-72, KIP-402, Kafka's `SocketServerConfigs`, `ConnectionQuotas`,
`SimpleMemoryPool`.

`RequestMemory`: a request reserves its size once the size is known, unless all its bytes are already there.
As in Kafka, a request may start while any memory is free, so that the largest one eventually succeeds; the
limit is exceeded by at most one request. A connection that finds no free memory is not read until other
requests have been processed. Then the smallest waiting request and the oldest one start by turns, so that
neither small nor large requests starve. Kafka lets a started request keep its memory for any time. Here,
while others wait, a tenth of the request must arrive in each `queued.max.request.stall.ms`.
`UnreadResponses`: Kafka sends records from the page cache, so that a consumer that does not read costs it
nothing. Here records are in memory once they are read. The more bytes peers leave unread, the fewer records
the next Fetch returns; it always returns one batch.
"""

import socket
from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import Config
from coordinator.config.validators import parse_connection_counts
from storage.storage_errors import format_error_reason

MIN_PROGRESS_DIVISOR: Final = 10
"""While other requests wait, at least a tenth of a request must arrive in each `queued.max.request.stall.ms`. So a
request that delays others is complete, or its connection closed, after ten such times."""
MAX_UNREAD_BYTES: Final = 256 * 1024 * 1024


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """The connection limits, named like the properties. Times in milliseconds, sizes in bytes; a negative idle
    time means no limit."""

    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_request_bytes: int
    queued_max_request_stall_ms: int
    per_ip_overrides: Mapping[str, int]
    """The maximum number of connections by numeric IP address."""


def create_connection_limits(config: Config) -> ConnectionLimits:
    """Create the limits of a configuration. Raises ConfigError."""
    counts = parse_connection_counts(config.max_connections_per_ip_overrides)
    per_ip = {_resolve_host(host): count for host, count in counts.items()}
    queued = config.queued_max_request_bytes
    if queued > 0:
        # The default limit has room for one request of the maximum size.
        queued = max(queued, config.socket_request_max_bytes)
    return config.view(ConnectionLimits, per_ip_overrides=per_ip, queued_max_request_bytes=queued)


def _resolve_host(host: str) -> str:
    """Return the address of a host in the form that sockets report. The first one is used, as in Kafka."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"max.connections.per.ip.overrides: {host}: {format_error_reason(error)}"
        ) from error
    return str(found[0][4][0]).removeprefix("::ffff:")


class Receiver(Protocol):
    """A connection that receives requests, one at a time."""

    def on_memory_reserved(self, size_bytes: int) -> None:
        """Continue to receive the request for which the receiver waited. Its memory is reserved now."""

    @property
    def received_bytes(self) -> int:
        """The number of received bytes of the incoming request. It is the full size while groupd itself delays
        the request."""

    def abort_receiving(self) -> None:
        """Close the connection because other requests wait for memory and its own request does not arrive."""


class RequestMemory:
    """The free memory for requests, and the connections that wait for it. A `limit_bytes` of 0 or less means no
    limit."""

    __slots__ = ("_is_for_smallest", "_receiving", "_waiting", "free_bytes", "is_bounded", "reserved_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.is_bounded = limit_bytes > 0
        self.free_bytes = limit_bytes
        self.reserved_bytes = 0
        self._receiving: dict[Receiver, tuple[int, int]] = {}
        """The size of each incoming request, and the number of its bytes that had arrived at the last check at
        which other connections waited; -1 if none has waited since the request began. Sizes in bytes."""
        self._waiting: dict[Receiver, int] = {}
        """The sizes of the requests that wait for memory, in bytes. The receiver that has waited longest is
        first."""
        self._is_for_smallest = False

    @property
    def waiting_count(self) -> int:
        """The number of connections that are not read because no memory is free."""
        return len(self._waiting)

    def reserve(self, receiver: Receiver, size_bytes: int) -> bool:
        """Reserve the memory of a request. If none is free, add the receiver to the waiting ones and return
        False. `release` later calls its `on_memory_reserved`."""
        assert receiver not in self._waiting, "a connection receives one request at a time"
        if self.is_bounded and self.free_bytes <= 0:
            self._waiting[receiver] = size_bytes
            return False
        self._start_receiving(receiver, size_bytes)
        return True

    def finish_receiving(self, receiver: Receiver) -> None:
        """Record that the request of a receiver is complete or was abandoned. Its memory stays reserved until
        `release`."""
        self._receiving.pop(receiver, None)

    def release(self, size_bytes: int) -> None:
        """Release the memory of a request, and reserve memory for waiting receivers."""
        self._add_reserved(-size_bytes)
        while self._waiting and self.free_bytes > 0:
            self._is_for_smallest = not self._is_for_smallest
            if self._is_for_smallest:
                receiver = min(self._waiting, key=self._waiting.__getitem__)
            else:
                receiver = next(iter(self._waiting))
            wanted_bytes = self._waiting.pop(receiver)
            self._start_receiving(receiver, wanted_bytes)
            receiver.on_memory_reserved(wanted_bytes)

    def remove_receiver(self, receiver: Receiver) -> None:
        """Remove a closed connection from the waiting and the receiving ones."""
        self._waiting.pop(receiver, None)
        self.finish_receiving(receiver)

    def abort_stalled(self) -> None:
        """Close connections that received less than a part of their request since the last call.

        They are closed only if other connections waited meanwhile. Call it once in each
        `queued.max.request.stall.ms`.
        """
        stalled = []
        for receiver, (size_bytes, before_bytes) in self._receiving.items():
            kept_bytes = receiver.received_bytes
            wanted_bytes = min(size_bytes, before_bytes + max(1, size_bytes // MIN_PROGRESS_DIVISOR))
            if self._waiting and before_bytes >= 0 and kept_bytes < wanted_bytes:
                stalled.append(receiver)
            else:
                self._receiving[receiver] = (size_bytes, kept_bytes if self._waiting else -1)
        for receiver in stalled:
            receiver.abort_receiving()

    def _start_receiving(self, receiver: Receiver, size_bytes: int) -> None:
        self._add_reserved(size_bytes)
        self._receiving[receiver] = (size_bytes, -1)

    def _add_reserved(self, size_bytes: int) -> None:
        self.reserved_bytes += size_bytes
        self.free_bytes -= size_bytes


class UnreadResponses:
    """The bytes of responses that wait behind earlier ones or in the transports of slow readers."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = MAX_UNREAD_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def remaining_bytes(self) -> int:
        """Return the number of bytes of records that one more response may have."""
        return max(0, self.limit_bytes - self.held_bytes)
