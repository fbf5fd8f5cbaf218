"""Text for people: client text with its unprintable characters escaped, addresses of peers, durations,
counts, lists and ranges, suggestions for misspelt names, and the error of a failed start.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

MAX_PRINTED: Final = 200


def parse_peer_address(peername: object) -> str:
    """Return the numeric host of a socket's peer; an IPv4 address over IPv6 as plain IPv4."""
    if isinstance(peername, tuple) and peername:
        return str(peername[0]).removeprefix("::ffff:")
    return ""


def format_peer(peername: object) -> str:
    """Return host and port for a log line."""
    if isinstance(peername, tuple) and len(peername) >= 2:
        host = parse_peer_address(peername)
        return f"[{host}]:{peername[1]}" if ":" in host else f"{host}:{peername[1]}"
    return "an unknown peer"


def printable(text: str, most: int = MAX_PRINTED) -> str:
    """Return client text for one line of a log, with line ends and terminal control characters escaped. Cuts the
    text after `most` characters.
    """
    if len(text) > most:
        text = text[:most] + "…"
    return escape_unprintable(text)


_POSSIBLY_UNPRINTABLE: Final = re.compile(r"[^ -~]")
"""Possibly unprintable characters. Only `str.isprintable` decides."""


def escape_unprintable(text: str) -> str:
    """Escape the characters that end a line, steer a terminal or reorder text: `\\x1b`, `\\u202e`.

    These are the control and format characters, which include those of bidirectional text, and all separators but
    the space.
    """
    return text if text.isprintable() else _POSSIBLY_UNPRINTABLE.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else character.encode("unicode_escape").decode()


_DURATION_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def format_duration(milliseconds: int) -> str:
    """Format a duration for a table or a label: `2 ms`, `2.69 s`, `45 s`, `5 min 3 s`, `8 d 2 h`.

    A duration in two units is rounded to the smaller one.
    """
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    for (unit_ms, unit), (smaller_ms, smaller) in pairwise(_DURATION_UNITS):
        whole, rest = divmod(round(milliseconds / smaller_ms), unit_ms // smaller_ms)
        if whole:
            return f"{whole} {unit} {rest} {smaller}" if rest else f"{whole} {unit}"
    return f"{milliseconds / 1000:.{2 if milliseconds < 9_995 else 0}f} s"  # more would be rounded to 10.00 s


def format_seconds(milliseconds: float) -> str:
    """Format a duration for a sentence: `0.3 s`, `12 s`, `300 s`."""
    return f"{milliseconds / 1000:.{1 if milliseconds < 10_000 else 0}f} s"


def format_count(number: int, noun: str) -> str:
    """Format a count: `1 member`, `3 members`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_list(texts: Sequence[str], total: int, separator: str = ", ") -> str:
    """Join the first texts of a list with `total` entries: `alice, bob and 8 more`."""
    more = total - len(texts)
    return separator.join(texts) + (f" and {more} more" if more else "")


def list_ranges(numbers: Iterable[int], joint: str = "-") -> list[str]:
    """Return the ranges of consecutive numbers in ascending order: `0-2`, `5`. `joint` joins two ends."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return [f"{first}" if first == last else f"{first}{joint}{last}" for first, last in ranges]


_MAX_RANGES: Final = 12


def format_ranges(numbers: Iterable[int]) -> str:
    """Format the numbers of partitions: `0-5 7`, and of many ranges the first 12."""
    ranges = list_ranges(numbers)
    return format_list(ranges[:_MAX_RANGES], len(ranges), " ")


class StartFailed(Exception):
    """The daemon cannot start. The text has the cause and the fix in one line."""


_MAX_LISTED: Final = 40
"""A longer list of valid names hides the intended one."""
_MAX_NAME_LENGTH: Final = 100
"""difflib's time grows with the square of the length, and the name comes from a client."""
_DEFAULT_CUTOFF: Final = 0.6


def nearest_names(
    name: str, valid: Collection[str], most: int = 1, cutoff: float = _DEFAULT_CUTOFF
) -> list[str]:
    """Return the valid names that are most similar to `name`, the nearest first. Upper and lower case are equal.

    `most` bounds their number; `cutoff` is difflib's: 1.0 accepts equal names alone, 0.0 any name.
    """
    from difflib import get_close_matches  # large, and needed only after a mistake

    by_folded = {each.casefold(): each for each in valid}
    found = get_close_matches(name[:_MAX_NAME_LENGTH].casefold(), by_folded, most, cutoff)
    return [by_folded[each] for each in found]


def suggest(name: str, valid: Collection[str]) -> str:
    """Return a suffix in parentheses for the error message that rejects `name`: the nearest valid name, or all
    valid names if none is near."""
    near = nearest_names(name, valid)
    if near:
        return f"(did you mean {near[0]}?)"
    if len(valid) <= _MAX_LISTED:
        return f"(valid: {', '.join(valid)})"
    return f"(most similar: {', '.join(nearest_names(name, valid, 5, 0.0))})"
