"""Suggestions at the end of an error message that refuses a misspelt name."""

from collections.abc import Collection
from typing import Final

_MOST_LISTED: Final = 40
"""A longer list of valid names hides the one that was meant."""
_LONGEST_NAME: Final = 100
"""difflib's time grows with the square of the length, and the name comes from a client."""
_ALIKE: Final = 0.6


def nearest_names(name: str, valid: Collection[str], most: int = 1, cutoff: float = _ALIKE) -> list[str]:
    """Return the valid names most like `name`, the nearest first, in any case of letters.

    `most` bounds their number; `cutoff` is difflib's: 1.0 accepts equal names alone, 0.0 any name.
    """
    from difflib import get_close_matches  # only a mistake needs it, and it is not small

    by_folded = {each.casefold(): each for each in valid}
    found = get_close_matches(name[:_LONGEST_NAME].casefold(), by_folded, most, cutoff)
    return [by_folded[each] for each in found]


def suggest(name: str, valid: Collection[str]) -> str:
    """Return what to add to a sentence that refuses `name`, in parentheses.

    That is the nearest valid name, or all valid names where none is near.
    """
    near = nearest_names(name, valid)
    if near:
        return f"(did you mean {near[0]}?)"
    if len(valid) <= _MOST_LISTED:
        return f"(valid: {', '.join(valid)})"
    return f"(most similar: {', '.join(nearest_names(name, valid, 5, 0.0))})"
