"""Large requests are resolved in pieces, with others in between."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

MOST_AT_ONCE: Final = 500
"""Partitions of a large request that are resolved before others are answered."""

P = TypeVar("P")


def in_pieces(partitions: Sequence[P]) -> Iterator[list[P]]:
    """So many at a time; one empty piece where there are none."""
    for start in range(0, max(1, len(partitions)), MOST_AT_ONCE):
        yield list(partitions[start : start + MOST_AT_ONCE])
