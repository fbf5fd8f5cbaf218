"""Kafka's bounds on connections, as the config says them.

Source: KIP-72, KIP-402, Kafka's `SocketServerConfigs` and `ConnectionQuotas`.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.config.errors import ConfigError
from coordinator.config.properties import Config
from storage.os_error import reason_of


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in milliseconds, sizes in bytes; a negative idle time is for ever."""

    max_request_bytes: int
    max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_request_bytes: int
    """What all requests that are being received may take together; not above 0: anything."""
    per_ip_overrides: Mapping[str, int]
    """By numeric address."""


def connection_limits(config: Config) -> ConnectionLimits:
    """The limits of a config. Raises ConfigError."""
    queued = config.queued_max_request_bytes
    if 0 < queued < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes: {queued} is less than socket.request.max.bytes,"
            f" which is {config.socket_request_max_bytes}"
        )
    overrides: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in config.max_connections_per_ip_overrides.split(","))):
        host, _, count = part.rpartition(":")
        if not host or not count.isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides: {part} is not HOST:COUNT")
        overrides[_numeric(host)] = int(count)
    if config.max_connections_per_ip == 0 and not overrides:
        raise ConfigError("max.connections.per.ip: 0 needs max.connections.per.ip.overrides")
    return ConnectionLimits(
        config.socket_request_max_bytes,
        config.connections_max_idle_ms,
        config.max_connections,
        config.max_connections_per_ip,
        queued,
        overrides,
    )


def _numeric(host: str) -> str:
    """The address of a host, as sockets tell it; the first one, as in Kafka."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"max.connections.per.ip.overrides: {host}: {reason_of(error)}") from error
    return str(found[0][4][0]).removeprefix("::ffff:")
