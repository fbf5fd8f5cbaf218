"""Text for people: client text with its unprintable characters escaped, addresses of peers, suggestions for
misspelt names, and the error of a failed start.
"""

import re
from collections.abc import Collection
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
    """Return the valid names most like `name`, the nearest first, in any case of letters.

    `most` bounds their number; `cutoff` is difflib's: 1.0 accepts equal names alone, 0.0 any name.
    """
    from difflib import get_close_matches  # large, and needed only after a mistake

    by_folded = {each.casefold(): each for each in valid}
    found = get_close_matches(name[:_MAX_NAME_LENGTH].casefold(), by_folded, most, cutoff)
    return [by_folded[each] for each in found]


def suggest(name: str, valid: Collection[str]) -> str:
    """Return a suffix in parentheses for the sentence that refuses `name`: the nearest valid name, or all valid
    names if none is near.
    """
    near = nearest_names(name, valid)
    if near:
        return f"(did you mean {near[0]}?)"
    if len(valid) <= _MAX_LISTED:
        return f"(valid: {', '.join(valid)})"
    return f"(most similar: {', '.join(nearest_names(name, valid, 5, 0.0))})"
