"""Counting what members have in common."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def count(counts: dict[K, int], keys: Iterable[K], change: int) -> None:
    """Add 1 or -1 for each key; what comes to 0 is not there."""
    for key in keys:
        total = counts.get(key, 0) + change
        assert total >= 0, key
        if total:
            counts[key] = total
        else:
            del counts[key]
