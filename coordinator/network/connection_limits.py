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
"""The tenth part: a request that others wait for is whole, or gone, after ten times that time at most."""
MAX_UNREAD_BYTES: Final = 256 * 1024 * 1024


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """Properties by their names. Times in milliseconds, sizes in bytes; a negative idle time is for ever."""

    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_request_bytes: int
    queued_max_request_stall_ms: int
    per_ip_overrides: Mapping[str, int]
    """By numeric address."""


def create_connection_limits(config: Config) -> ConnectionLimits:
    """The limits of a config. Raises ConfigError."""
    counts = parse_connection_counts(config.max_connections_per_ip_overrides)
    per_ip = {_resolve_host(host): count for host, count in counts.items()}
    queued = config.queued_max_request_bytes
    if queued > 0:
        # The default has room for one request, however large they may be.
        queued = max(queued, config.socket_request_max_bytes)
    return config.view(ConnectionLimits, per_ip_overrides=per_ip, queued_max_request_bytes=queued)


def _resolve_host(host: str) -> str:
    """The address of a host, as sockets tell it; the first one, as in Kafka."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"max.connections.per.ip.overrides: {host}: {format_error_reason(error)}"
        ) from error
    return str(found[0][4][0]).removeprefix("::ffff:")


class Receiver(Protocol):
    """A receiver of requests, one at a time."""

    def on_memory_reserved(self, size_bytes: int) -> None:
        """There is memory for the request that was waited for."""

    @property
    def received_bytes(self) -> int:
        """How much of the request that is being received has come; all of it, where that is for us to do."""

    def abort_receiving(self) -> None:
        """Others wait for the memory of this request, and it does not come: the connection is to be closed."""


class RequestMemory:
    """The free memory for requests, and the connections that wait for it. A `limit_bytes` of 0 or less means no
    limit."""

    __slots__ = ("_is_for_smallest", "_receiving", "_waiting", "free_bytes", "is_bounded", "reserved_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.is_bounded = limit_bytes > 0
        self.free_bytes = limit_bytes
        self.reserved_bytes = 0
        self._receiving: dict[Receiver, tuple[int, int]] = {}
        """The size of the request of each, and how much of it had come when others were last seen to wait; -1 when
        none waited since it began."""
        self._waiting: dict[Receiver, int] = {}
        """The size of the request of each, since the longest first."""
        self._is_for_smallest = False

    @property
    def waiting_count(self) -> int:
        """Connections that are not read from because nothing is free."""
        return len(self._waiting)

    def reserve(self, receiver: Receiver, size_bytes: int) -> bool:
        """Takes the bytes of a request; where nothing is free, the connection waits, and hears of it."""
        assert receiver not in self._waiting, "a connection receives one request at a time"
        if self.is_bounded and self.free_bytes <= 0:
            self._waiting[receiver] = size_bytes
            return False
        self._start_receiving(receiver, size_bytes)
        return True

    def finish_receiving(self, receiver: Receiver) -> None:
        """The request of this connection has come, or never will; its bytes are taken until they are given back."""
        self._receiving.pop(receiver, None)

    def release(self, size_bytes: int) -> None:
        """Frees the bytes of a request, and lets others go on."""
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
        """The connection is gone: it waits no more, and receives nothing."""
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
    """What waits behind other answers, and what transports keep for peers that do not keep up."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = MAX_UNREAD_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def remaining_bytes(self) -> int:
        """Bytes of records that one more answer may have."""
        return max(0, self.limit_bytes - self.held_bytes)
