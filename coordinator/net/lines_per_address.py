"""Lines about peers that misbehave: a few for each address, then a count, so that a flood fills no disk.

The first lines of a period are told; what follows from the same address is counted, and summed up in one line when
the period is over.
"""

import logging
from typing import Final

from coordinator import clock

_LOG: Final = logging.getLogger("SocketServer")

LINES_A_PERIOD: Final = 20
PERIOD_MS: Final = 10_000
MAX_ADDRESSES: Final = 1_000
"""Addresses that are counted one by one; further ones share a count."""
_OTHERS: Final = "/other addresses"


class LinesPerAddress:
    """Counts of one period, by address."""

    __slots__ = ("_counts", "_period_began_ns")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._period_began_ns = clock.monotonic_ns()

    def is_to_be_told(self, address: str) -> bool:
        """Whether there is to be a line about this peer; in any case it counts."""
        if clock.monotonic_ns() - self._period_began_ns > PERIOD_MS * 1_000_000:
            self.sum_up()
        if address not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            address = _OTHERS
        count = self._counts[address] = self._counts.get(address, 0) + 1
        return count <= LINES_A_PERIOD

    def sum_up(self) -> None:
        """Ends the period: tells of what was only counted."""
        for address, count in self._counts.items():
            if count > LINES_A_PERIOD:
                untold = count - LINES_A_PERIOD
                _LOG.warning("%d more connections from %s were closed or rejected", untold, address[1:])
        self._counts.clear()
        self._period_began_ns = clock.monotonic_ns()
