"""Kafka's bounds on connections, as the config says them.

Source: KIP-72, KIP-402, Kafka's `SocketServerConfigs` and `ConnectionQuotas`.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.config.connection_counts import parse_counts
from coordinator.config.errors import ConfigError
from coordinator.config.properties import Config
from storage.os_error import reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Properties by their names. Times in milliseconds, sizes in bytes; a negative idle time is for ever."""

    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_request_bytes: int
    queued_max_request_stall_ms: int
    per_ip_overrides: Mapping[str, int]
    """By numeric address."""


def connection_limits(config: Config) -> ConnectionLimits:
    """The limits of a config. Raises ConfigError."""
    counts = parse_counts(config.max_connections_per_ip_overrides)
    per_ip = {_numeric(host): count for host, count in counts.items()}
    queued = config.queued_max_request_bytes
    if queued > 0:
        # The default has room for one request, however large they may be.
        queued = max(queued, config.socket_request_max_bytes)
    return config.view(ConnectionLimits, per_ip_overrides=per_ip, queued_max_request_bytes=queued)


def _numeric(host: str) -> str:
    """The address of a host, as sockets tell it; the first one, as in Kafka."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"max.connections.per.ip.overrides: {host}: {reason_of(error)}") from error
    return str(found[0][4][0]).removeprefix("::ffff:")
