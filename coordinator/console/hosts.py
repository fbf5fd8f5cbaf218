"""Names of hosts, as a port is bound to them and as requests name them."""

import socket
from collections.abc import Sequence

from coordinator.config.listeners import is_loopback


def are_loopback(sockets: Sequence[socket.socket]) -> bool:
    """Whether listening sockets can be reached from this machine only."""
    return all(is_loopback(str(bound.getsockname()[0])) for bound in sockets)


def host_of(header: str) -> str:
    """The host in a `Host`, in lower case: without port and brackets."""
    header = header.strip().lower()
    if header.startswith("["):
        host, _, port = header[1:].partition("]")
        return header if port and not port.startswith(":") else host
    return header.partition(":")[0]
