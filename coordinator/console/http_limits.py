"""What the HTTP port may cost."""

from dataclasses import dataclass
from typing import Final

FILES_SHARE: Final = 8
"""The HTTP port has one of so many of the process's descriptors at most: the others are for Kafka's clients, logs
and topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Properties by their names."""

    http_max_connections: int
    http_request_timeout_ms: int

    def most_connections(self, files: int) -> int:
        """Connections at one time, where the system gives the process `files` descriptors."""
        return min(self.http_max_connections, max(1, files // FILES_SHARE))
