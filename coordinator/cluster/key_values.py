"""The values of keys in the engine, parsed. Another version of groupd, another program or a person may have written
them, so each parse says why a value cannot be read.
"""

import json
from typing import Any, Final

FORMAT: Final = 1
"""Of values that are JSON objects. A value without `format` has this one."""


class UnreadableKey(ValueError):
    """A key or its value is not what this version of groupd writes. The text goes on from the name of the key."""


def parse_number(value: bytes) -> int:
    """Return the number of a value. Raises UnreadableKey."""
    try:
        return int(value)
    except ValueError as error:
        raise UnreadableKey(f"is not a number: {_shortened(value)}") from error


def parse_object(value: bytes) -> dict[str, Any]:
    """Return the fields of a value that is a JSON object. Raises UnreadableKey, also for a newer format."""
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableKey(f"is not JSON: {_shortened(value)}") from error
    if not isinstance(fields, dict):
        raise UnreadableKey(f"is not a JSON object: {_shortened(value)}")
    found = fields.get("format", FORMAT)
    if found != FORMAT:
        raise UnreadableKey(
            f"has format {found!r} of a newer version of groupd; this version reads format {FORMAT}"
        )
    return fields


def parse_partition(text: bytes) -> tuple[str, int]:
    """Return topic and number of `TOPIC/NUMBER`, the end of a key. Raises UnreadableKey."""
    topic, _, number = text.rpartition(b"/")
    try:
        return topic.decode("ascii"), int(number)
    except ValueError as error:
        raise UnreadableKey("does not name a partition") from error


def key_text(key: bytes) -> str:
    """Return a key as printable text for a line of the log."""
    text = key.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _shortened(value: bytes) -> str:
    return repr(value if len(value) <= 60 else value[:60] + b"...")
