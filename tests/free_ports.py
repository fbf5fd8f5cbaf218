"""Ports for servers that need theirs before they start, and whether this machine has IPv6."""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

FIRST: Final = 10_000
GIVEN_OUT: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
GIVEN_OUT_FROM: Final = 32_768
"""Where Linux begins unless told otherwise; others begin higher."""

_CHANCE: Final = random.SystemRandom()  # tests that run at once may have seeded the common one alike


def free_ports(count: int) -> list[int]:
    """Return free ports below the ephemeral range.

    A server may take seconds to start. Another process could get an ephemeral port meanwhile, and clients would
    connect to the wrong server.
    """
    end = int(GIVEN_OUT.read_text().split()[0]) if GIVEN_OUT.exists() else GIVEN_OUT_FROM
    with contextlib.ExitStack() as stack:
        bound: list[socket.socket] = []
        while len(bound) < count:
            with contextlib.suppress(OSError):
                port = _CHANCE.randrange(FIRST, end)
                bound.append(stack.enter_context(socket.create_server(("127.0.0.1", port))))
        return [int(each.getsockname()[1]) for each in bound]


def has_ipv6() -> bool:
    """Whether servers can listen on ::1; the system may support IPv6 and have no such address."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
