"""Parsers for values of API fields: durations, name patterns and number conditions.

A duration is a number of milliseconds, or text such as "45s", "1500ms", "5m" or "8d". A name pattern may
contain `*`. A number may follow a comparison such as `>=`. A Problem points at the field of a wrong value.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

from coordinator.control.faults.fault_rule import NamePattern, NumberPattern
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable, suggest

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) *(ms|s|m|h|d)")
MAX_DURATION_MS: Final = 1000 * 366 * _UNITS_MS["d"]
"""The maximum duration: a thousand years, in milliseconds."""


def parse_duration_ms(value: int | str, field: str) -> int:
    """Parse a duration in milliseconds, at least 0. Raises Problem (bad-request), which names the field."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise _invalid_duration(
                field, f'{printable(value)!r} is not a duration: write "45s", "1500ms", "5m", "2h" or "8d"'
            )
        ms = float(match[1]) * _UNITS_MS[match[2]]
    else:
        ms = value
    if not 0 <= ms <= MAX_DURATION_MS:
        raise _invalid_duration(field, f"{value} is not between 0 and a thousand years")
    return round(ms)


def _invalid_duration(field: str, why: str) -> Problem:
    return Problem(
        ProblemKind.BAD_REQUEST, f"{field} is invalid", f"{field}: {why}.", {"pointer": f"/{field}"}
    )


MAX_NAMES: Final = 1000
"""The maximum number of names in one list."""
_NUMBER_CONDITION: Final = re.compile(r"(<=|>=|<|>|=|) *(-?[0-9]{1,10})")
_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_name_pattern(names: NamePattern, pointer: str) -> Callable[[str], bool]:
    """Return a predicate that tells whether a name matches one of the patterns. Raises Problem (bad-request)."""
    several = [names] if isinstance(names, str) else names
    if not 0 < len(several) <= MAX_NAMES:
        raise invalid_field_problem(pointer, f"{len(several)} names; use 1 to {MAX_NAMES}")
    exact = frozenset(name for name in several if "*" not in name)
    wild = [_compile_wildcard(name) for name in several if "*" in name]
    if not wild:
        return exact.__contains__
    return lambda name: name in exact or any(matches(name) for matches in wild)


def select_known_names(names: NamePattern, known: Collection[str], pointer: str, what: str) -> list[str]:
    """Return the known names that `names` select. Raises Problem (bad-request) for a name that selects none.

    `what` is the kind of name, with its article: "a Kafka API".
    """
    selected = list(filter(compile_name_pattern(names, pointer), known))
    for name in [names] if isinstance(names, str) else names:
        if not any(map(compile_name_pattern(name, pointer), known)):
            raise unknown_name_problem(name, known, pointer, what)
    return selected


def unknown_name_problem(name: str, known: Collection[str], pointer: str, what: str) -> Problem:
    """Return the problem of an unknown name. `what`: as for `select_known_names`."""
    return invalid_field_problem(pointer, f"{printable(name)!r} is not {what} {suggest(name, known)}")


def _compile_wildcard(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for a pattern with `*`. A regular expression could backtrack for too long on a long
    name."""
    start, *middle, end = pattern.split("*")
    least = len(start) + len(end)

    def matches(name: str) -> bool:
        if len(name) < least or not (name.startswith(start) and name.endswith(end)):
            return False
        position = len(start)
        for part in middle:
            found = name.find(part, position, len(name) - len(end))
            if found < 0:
                return False
            position = found + len(part)
        return True

    return matches


def compile_number_pattern(number: NumberPattern, pointer: str) -> Callable[[int], bool]:
    """Return a predicate that tells whether a number satisfies a comparison. Raises Problem (bad-request)."""
    if isinstance(number, int):
        wanted: int = number
        return lambda found: found == wanted
    match = _NUMBER_CONDITION.fullmatch(number.strip())
    if match is None:
        raise invalid_field_problem(pointer, f'{printable(number)!r} is not a number: write 3, "<5" or ">=3"')
    compare, bound = _COMPARISONS[match[1]], int(match[2])
    return lambda found: compare(found, bound)


def matches_any(pattern: Callable[[str], bool] | None, names: Iterable[str]) -> bool:
    """Return whether a name matches the pattern. No pattern matches everything."""
    return pattern is None or any(map(pattern, names))


def invalid_field_problem(pointer: str, why: str) -> Problem:
    """Create the problem of an invalid field."""
    name = pointer.removeprefix("/").replace("/", ".")
    return Problem(ProblemKind.BAD_REQUEST, f"{name} is invalid", f"{name}: {why}.", {"pointer": pointer})


def impossible_field_problem(pointer: str, why: str) -> Problem:
    """Create the problem of a rule that could never act."""
    name = pointer.removeprefix("/").replace("/", ".")
    return Problem(ProblemKind.NOT_POSSIBLE, f"{name} is not possible", f"{why}.", {"pointer": pointer})
