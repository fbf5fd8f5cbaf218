"""What is fuzzed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIXED_STEPS: Final = 4_000
STEPS_A_BYTE: Final = 200
FIXED_BYTES: Final = 200_000
BYTES_A_BYTE: Final = 200


@dataclass(frozen=True)
class Target:
    """A call that takes any bytes, and its invariants.

    `call` checks invariants by assertions; it may raise `errors` and nothing else. The numbers of executed
    lines and bytes of memory per byte of input are limited, as deterministic measures of time and space.
    `fix` makes mutated bytes pass a checksum, so that the code behind it is reached; half of the inputs use
    it.
    """

    name: str
    seeds: tuple[bytes, ...]
    call: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    fix: Callable[[bytes], bytes] | None = None
    steps_a_byte: int = STEPS_A_BYTE
    bytes_a_byte: int = BYTES_A_BYTE

    def most_steps(self, data: bytes) -> int:
        """Lines that an input may run."""
        return FIXED_STEPS + self.steps_a_byte * len(data)

    def most_bytes(self, data: bytes) -> int:
        """Memory that an input may take at its peak."""
        return FIXED_BYTES + self.bytes_a_byte * len(data)
