"""Durations as people write them: milliseconds as a number, or text such as "45s", "1500ms", "5m", "8d"."""

import re
from typing import Final

from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) *(ms|s|m|h|d)")
LONGEST_MS: Final = 1000 * 366 * _UNITS_MS["d"]
"""A thousand years: nobody means more."""


def duration_ms(value: int | str, field: str) -> int:
    """What a field means, in milliseconds, at least 0. Raises Problem (bad-request) naming the field."""
    if isinstance(value, str):
        match = _FORM.fullmatch(value.strip())
        if match is None:
            raise _refused(
                field, f'{printable(value)!r} is no duration: write "45s", "1500ms", "5m", "2h" or "8d"'
            )
        ms = float(match[1]) * _UNITS_MS[match[2]]
    else:
        ms = value
    if not 0 <= ms <= LONGEST_MS:
        raise _refused(field, f"{value} is not between 0 and a thousand years")
    return round(ms)


def _refused(field: str, why: str) -> Problem:
    return Problem(ProblemKind.BAD_REQUEST, f"{field} is wrong", f"{field}: {why}.", {"pointer": f"/{field}"})
