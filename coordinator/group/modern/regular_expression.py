"""Regular expressions."""

import re
from collections.abc import Collection


def why_invalid(pattern: str) -> str | None:
    """Why it is none."""
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None


def matches(patterns: Collection[str], names: Collection[str]) -> dict[str, list[str]]:
    """What they match."""
    return {pattern: sorted(name for name in names if re.fullmatch(pattern, name)) for pattern in patterns}
