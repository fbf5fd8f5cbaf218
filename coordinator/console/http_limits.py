"""What the HTTP port may cost."""

from dataclasses import dataclass
from typing import Final

FILES_SHARE: Final = 8
"""The HTTP port has one of so many of the process's descriptors at most: the others are for Kafka's clients, logs
and topics."""

QUICK_SHARE: Final = 4
"""One of so many connections is for what is answered at once: waits and streams, however many there are, leave it
to /health, /metrics and whoever wants to know what is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Properties by their names."""

    http_max_connections: int
    http_request_timeout_ms: int

    def most_connections(self, files: int) -> int:
        """Connections at one time, where the system gives the process `files` descriptors."""
        return min(self.http_max_connections, max(1, files // FILES_SHARE))


def most_lasting(connections: int) -> int:
    """Of so many connections, those on which answers may be long in coming at one time."""
    return max(1, connections - max(1, connections // QUICK_SHARE))
