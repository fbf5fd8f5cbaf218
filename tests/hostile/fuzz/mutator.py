"""Mutations of bytes, at positions where lengths, counts, versions and varints change their meaning."""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

MAX_BYTES: Final = 4096
"""Longer inputs are slower, not stranger."""
_EDGE_BYTES: Final = (0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_INTEGERS: Final = {
    ">h": (-(2**15), -2, -1, 0, 1, 127, 255, 2**15 - 1),
    ">i": (-(2**31), -2, -1, 0, 1, 127, 128, 2**15, 2**16, 2**24, 2**31 - 1),
    ">q": (-(2**63), -2, -1, 0, 1, 2**31, 2**53, 2**63 - 1),
}
_VARINTS: Final = (
    b"\x00",
    b"\x80\x00",
    b"\xff\x7f",
    b"\x80\x80\x01",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\xff" * 9 + b"\x01",
)
_MAX_CHANGES: Final = 6


class Mutator:
    """Changes bytes, as one random source decides."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._changes: list[Callable[[bytearray, Sequence[bytes]], None]] = [
            self._flip,
            self._edge_byte,
            self._integer,
            self._integer,
            self._varint,
            self._add,
            self._remove,
            self._repeat,
            self._insert,
            self._splice,
            self._cut,
        ]

    def mutate(self, data: bytes, others: Sequence[bytes]) -> bytes:
        """`data` with a few changes; `others` lend parts of theirs."""
        out = bytearray(data)
        for _ in range(self._chance.randint(1, _MAX_CHANGES)):
            self._chance.choice(self._changes)(out, others)
        return bytes(out[:MAX_BYTES])

    def _position(self, out: bytearray) -> int:
        return self._chance.randrange(len(out) + 1)

    def _flip(self, out: bytearray, others: Sequence[bytes]) -> None:
        if out:
            out[self._chance.randrange(len(out))] ^= 1 << self._chance.randrange(8)

    def _edge_byte(self, out: bytearray, others: Sequence[bytes]) -> None:
        if out:
            out[self._chance.randrange(len(out))] = self._chance.choice(_EDGE_BYTES)

    def _integer(self, out: bytearray, others: Sequence[bytes]) -> None:
        letter = self._chance.choice(list(_INTEGERS))
        data = struct.pack(letter, self._chance.choice(_INTEGERS[letter]))
        position = self._position(out)
        out[position : position + len(data)] = data

    def _varint(self, out: bytearray, others: Sequence[bytes]) -> None:
        position = self._position(out)
        out[position : position + self._chance.randrange(3)] = self._chance.choice(_VARINTS)

    def _add(self, out: bytearray, others: Sequence[bytes]) -> None:
        if out:
            position = self._chance.randrange(len(out))
            out[position] = (out[position] + self._chance.choice((-2, -1, 1, 2))) % 256

    def _remove(self, out: bytearray, others: Sequence[bytes]) -> None:
        position = self._position(out)
        del out[position : position + self._chance.randint(1, 16)]

    def _repeat(self, out: bytearray, others: Sequence[bytes]) -> None:
        position = self._position(out)
        part = bytes(out[position : position + self._chance.randint(1, 32)])
        out[position:position] = part * self._chance.randint(1, 8)

    def _insert(self, out: bytearray, others: Sequence[bytes]) -> None:
        position = self._position(out)
        out[position:position] = self._chance.randbytes(self._chance.randint(1, 8))

    def _splice(self, out: bytearray, others: Sequence[bytes]) -> None:
        other = self._chance.choice(others)
        start = self._chance.randrange(len(other) + 1)
        position = self._position(out)
        out[position : position + self._chance.randrange(32)] = other[
            start : start + self._chance.randint(1, 64)
        ]

    def _cut(self, out: bytearray, others: Sequence[bytes]) -> None:
        del out[self._position(out) :]
