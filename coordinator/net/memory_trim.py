"""Gives memory back to the operating system after a storm of TLS handshakes.

A handshake takes a few hundred kilobytes. After thousands of them at once, glibc's malloc keeps the freed memory,
since pieces in use lie between. `malloc_trim` gives back the free pages. It is called in a thread, once
for many handshakes, and not at all where the C library has no such function.

Source: malloc_trim(3).
"""

import asyncio
from collections.abc import Callable
from typing import Final

HANDSHAKES_PER_TRIM: Final = 100
"""Fewer leave too little behind."""
DELAY_S: Final = 2.0
"""Between two calls at least, and after the last handshakes: their connections linger for a second."""


class MemoryTrim:
    """Counts handshakes. All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handshakes = 0
        self._is_due = False

    def on_handshake_failed(self) -> None:
        """Count a failed handshake, after its connection was closed."""
        self._handshakes += 1
        if self._handshakes >= HANDSHAKES_PER_TRIM and not self._is_due:
            self._is_due = True
            self._loop.call_later(DELAY_S, self._trim)

    def _trim(self) -> None:
        self._is_due = False
        self._handshakes = 0
        trim = find_malloc_trim()
        if trim is not None:
            self._loop.run_in_executor(None, trim, 0)


def find_malloc_trim() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim`; None for another C library."""
    # A daemon without such storms does without ctypes.
    import ctypes

    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
