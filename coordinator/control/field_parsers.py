"""Names with `*` and numbers with `>=`, as rules have them."""

import operator
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

from coordinator.control.faults.rule import Number, Text
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable
from coordinator.suggestions import suggest

MOST_NAMES: Final = 1000
"""In one list."""
_NUMBER: Final = re.compile(r"(<=|>=|<|>|=|) *(-?[0-9]{1,10})")
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def names_pattern(names: Text, pointer: str) -> Callable[[str], bool]:
    """Whether a name is one of those. Raises Problem (bad-request)."""
    several = [names] if isinstance(names, str) else names
    if not 0 < len(several) <= MOST_NAMES:
        raise wrong(pointer, f"{len(several)} names; there may be 1 to {MOST_NAMES}")
    exact = frozenset(name for name in several if "*" not in name)
    wild = [_wildcard(name) for name in several if "*" in name]
    if not wild:
        return exact.__contains__
    return lambda name: name in exact or any(fits(name) for fits in wild)


def known_names(names: Text, known: Collection[str], pointer: str, what: str) -> list[str]:
    """Return the known names that `names` select. Raises Problem (bad-request) for a name that selects none.

    `what` is the kind of name, with its article: "a Kafka API".
    """
    selected = list(filter(names_pattern(names, pointer), known))
    for name in [names] if isinstance(names, str) else names:
        if not any(map(names_pattern(name, pointer), known)):
            raise unknown_name(name, known, pointer, what)
    return selected


def unknown_name(name: str, known: Collection[str], pointer: str, what: str) -> Problem:
    """Return the problem of a name that is not known. `what`: as `known_names` takes it."""
    return wrong(pointer, f"{printable(name)!r} is not {what} {suggest(name, known)}")


def _wildcard(pattern: str) -> Callable[[str], bool]:
    """Whether a name is as a pattern says. A regular expression would try every way to share out a long name."""
    start, *middle, end = pattern.split("*")
    least = len(start) + len(end)

    def fits(name: str) -> bool:
        if len(name) < least or not (name.startswith(start) and name.endswith(end)):
            return False
        position = len(start)
        for part in middle:
            found = name.find(part, position, len(name) - len(end))
            if found < 0:
                return False
            position = found + len(part)
        return True

    return fits


def number_pattern(number: Number, pointer: str) -> Callable[[int], bool]:
    """Whether a number is as asked for. Raises Problem (bad-request)."""
    if isinstance(number, int):
        wanted: int = number
        return lambda found: found == wanted
    match = _NUMBER.fullmatch(number.strip())
    if match is None:
        raise wrong(pointer, f'{printable(number)!r} is no number: write 3, "<5" or ">=3"')
    compare, bound = _COMPARE[match[1]], int(match[2])
    return lambda found: compare(found, bound)


def any_fits(pattern: Callable[[str], bool] | None, names: Iterable[str]) -> bool:
    """Whether there is no pattern, or a name that fits."""
    return pattern is None or any(map(pattern, names))


def wrong(pointer: str, why: str) -> Problem:
    """A rule that says what no rule can say."""
    name = pointer.removeprefix("/").replace("/", ".")
    return Problem(ProblemKind.BAD_REQUEST, f"{name} is wrong", f"{name}: {why}.", {"pointer": pointer})


def impossible(pointer: str, why: str) -> Problem:
    """A rule that could never act."""
    name = pointer.removeprefix("/").replace("/", ".")
    return Problem(ProblemKind.NOT_POSSIBLE, f"{name} is not possible", f"{why}.", {"pointer": pointer})
