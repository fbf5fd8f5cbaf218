"""Names of hosts, as a port is bound to them and as requests name them."""

import re
import socket
from collections.abc import Sequence
from typing import Final

from coordinator.config.listeners import is_loopback

_HOST: Final = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{0,5}))?")
_MAX_PORT: Final = 65_535


def are_loopback(sockets: Sequence[socket.socket]) -> bool:
    """Whether listening sockets can be reached from this machine only."""
    return all(is_loopback(str(bound.getsockname()[0])) for bound in sockets)


def parse_host(header: str) -> str | None:
    """Return the host of a `Host` header in lower case, without port and brackets; "" for an empty header, None for
    a malformed one, for example with a port that is not a number below 65,536."""
    header = header.strip().lower()
    if not header:
        return ""
    found = _HOST.fullmatch(header)
    if found is None or int(found["port"] or 0) > _MAX_PORT:
        return None
    return found["address"] or found["name"]
