"""Colours for lines that a daemon writes for people: what the eye looks for first stands out."""

import re
from typing import Final

from rich.color import ColorSystem
from rich.style import Style

from coordinator.cli.control.states import STYLES


def codes(style: str) -> str:
    """What colours a text that is put in its place; of the sixteen colours that everybody's terminal has."""
    return Style.parse(style).render("%s", color_system=ColorSystem.STANDARD)


_STYLES: Final = {
    "number": (r"(?<!\S)#\d+(?!\S)", "bold"),
    "time": (r"\b\d\d:\d\d:\d\d(?:\.\d{3})?\b", "dim"),
    "bad": (r"\b(?:session expired|expired|evicted|fenced|failed|lost by|no owner|unowned|never)\b", "red"),
    "hint": (r"^ *(?:hint|also):", "cyan"),
    "duration": (r"(?<![\w.])\+?\d+(?:\.\d+)? (?:ms|s|min|h|d)\b", "yellow"),
    "held": (r"\b(?:frozen|holding|held)\b", "magenta"),
}
"""What stands out beside the states, and how."""
_PATTERN: Final = re.compile(
    "|".join(
        [rf"\b(?:{'|'.join(STYLES)})\b", *(f"(?P<{name}>{words})" for name, (words, _) in _STYLES.items())]
    )
)
_CODES: Final = {name: codes(style) for name, (_, style) in _STYLES.items()}
DIM: Final = codes("dim")
_STATE_CODES: Final = {state: codes(style) for state, style in STYLES.items()}


def highlighted(line: str) -> str:
    """A line, in colours. In: text without control characters."""
    return _PATTERN.sub(_colored, line)


def _colored(found: re.Match[str]) -> str:
    text = found[0]
    return (_STATE_CODES.get(text) or _CODES[str(found.lastgroup)]) % text
