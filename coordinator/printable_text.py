"""Text of clients in output that people read."""

import re
from typing import Final

_SUSPECT: Final = re.compile(r"[^ -~]")
"""What may be unprintable. Python alone knows which characters are."""


def escape_unprintable(text: str) -> str:
    """Escape the characters that end a line, steer a terminal or reorder text: `\\x1b`, `\\u202e`.

    These are the control and format characters, which include those of bidirectional text, and all separators but
    the space.
    """
    return text if text.isprintable() else _SUSPECT.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else character.encode("unicode_escape").decode()
