"""A target: regular expressions over topic names, as members of consumer groups send them."""

from collections.abc import Iterator
from typing import Final

from coordinator.group.modern.topic_regex import find_pattern_error, match_names
from tests.group.modern.expressions import recorded
from tests.hostile.fuzz.target import Target

NAMES: Final = ["", "a", "orders", "topic-7", "é", "x" * 249]
SEEDS_EVERY: Final = 20


def expression_targets() -> Iterator[Target]:
    """Yield a part of the expressions that were compared with RE2/J."""
    seeds = tuple(each.pattern.encode(errors="replace") for each in recorded()[::SEEDS_EVERY])
    yield Target("expression", seeds, read_expression, (UnicodeDecodeError,))


def read_expression(data: bytes) -> None:
    """Whatever it is, it is refused with some words or it matches; together with others it matches the same."""
    pattern = data.decode()
    refused = find_pattern_error(pattern)
    assert refused is None or refused, "refused without a word"
    found = match_names([pattern], NAMES)[pattern]
    assert found == [name for name in sorted(NAMES) if name in found]
    assert refused is None or not found, "a refused expression matches"
    assert match_names(["o.*", pattern, "["], NAMES)[pattern] == found, "other patterns change its matches"
