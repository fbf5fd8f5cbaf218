"""Lines that are kept in memory, packed, up to so many bytes."""

from collections.abc import Iterator
from typing import Final
from zlib import compress, decompress

PIECE_BYTES: Final = 64 * 1024
"""Of lines that are packed together: some hundreds of microseconds of work."""
_FAST: Final = 1


class KeptLines:
    """Lines of a file, each with its end."""

    def __init__(self, most_bytes: int) -> None:
        """In: how many bytes the lines may have before they are packed."""
        self.most_bytes = most_bytes
        self.bytes = 0
        self._packed: list[bytes] = []
        self._open = bytearray()

    def takes(self, size: int) -> bool:
        """Whether so many bytes more are within the bound."""
        return self.bytes + size <= self.most_bytes

    def add(self, line: bytes) -> None:
        """Keeps a line."""
        self.bytes += len(line)
        self._open += line
        if len(self._open) >= PIECE_BYTES:
            self._packed.append(compress(self._open, _FAST))
            self._open = bytearray()

    def pieces(self) -> Iterator[bytes]:
        """All lines as they are now, whatever is added meanwhile."""
        packed, end = list(self._packed), bytes(self._open)
        return _unpacked(packed, end)


def _unpacked(packed: list[bytes], end: bytes) -> Iterator[bytes]:
    yield from map(decompress, packed)
    yield end
