"""Java's properties files. Source: the documentation of `java.util.Properties.load`."""

from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Parse a file to names and values, in order; the last value of a name wins. Raises ValueError for an invalid
    escape."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        end = 0
        while end < len(line) and line[end] not in "=:" + _BLANKS:
            end += 2 if line[end] == "\\" else 1
        name, rest = line[:end], line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        values[_unescape(name)] = _unescape(rest)
    return values


def _logical_lines(text: str) -> list[str]:
    """Return the lines without comments and blank lines. A backslash at the end of a line joins it to the next."""
    lines: list[str] = []
    continued = False
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        if continued:
            lines[-1] += line
        else:
            lines.append(line)
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        if continued:
            lines[-1] = lines[-1][:-1]
    return lines


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\" or position + 1 == len(text):
            out.append(character)
            position += 1
            continue
        escaped = text[position + 1]
        position += 2
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) != 4:
                raise ValueError(f"\\u{digits} is not four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
