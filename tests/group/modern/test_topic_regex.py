"""Topic expressions have the results and messages of RE2/J, and every expression takes little time and memory."""

import pytest

from coordinator.group.modern.topic_regex import MAX_CHARACTERS, TOO_LARGE, find_pattern_error, match_names
from tests.group.modern.expressions import NAMES, Expression, recorded


def test_the_recording_has_both_kinds() -> None:
    expressions = recorded()
    assert sum(each.refused is None for each in expressions) > 300
    assert sum(each.refused is not None for each in expressions) > 300
    assert len({each.refused for each in expressions}) > 10


@pytest.mark.parametrize("expression", recorded(), ids=lambda expression: ascii(expression.pattern))
def test_it_is_refused_in_the_words_of_re2j(expression: Expression) -> None:
    assert find_pattern_error(expression.pattern) == expression.refused


def test_the_same_names_match_as_in_re2j() -> None:
    expressions = recorded()
    found = match_names([each.pattern for each in expressions], NAMES)
    for each in expressions:
        assert found[each.pattern] == sorted(each.matches), each.pattern


def test_each_expression_has_its_names_in_order() -> None:
    names = [f"topic-{number}" for number in reversed(range(300))]
    patterns = [f"topic-{number}.*" for number in range(250)]
    found = match_names(patterns, names)
    assert list(found) == patterns
    for number, pattern in enumerate(patterns):
        assert found[pattern] == sorted(name for name in names if name.startswith(f"topic-{number}"))


def test_there_may_be_nothing_to_match() -> None:
    assert match_names([], ["a"]) == {}
    assert match_names(["a.*", "("], []) == {"a.*": [], "(": []}
    assert match_names(["(", "a"], ["a", "("]) == {"(": [], "a": ["a"]}


@pytest.mark.parametrize(
    "pattern",
    [
        "x" * (MAX_CHARACTERS + 1),
        "\\pL" * 5000,
        "[^\\pL]" * 2000,
        "a?" * 8000,
        ".*" * 8000,
        "\\pL{1000}" * 50,
        "[a-z]" * 3000,
    ],
    ids=lambda pattern: pattern[:8],
)
def test_what_would_take_much_is_refused(pattern: str) -> None:
    assert find_pattern_error(pattern) == TOO_LARGE
    assert match_names([pattern], ["a"]) == {pattern: []}


@pytest.mark.parametrize(
    "pattern", ["(?:a{1000}){1000}", "(((a{100}){100}){100}){100}", "a{" + "9" * 10_000 + "}"]
)
def test_repetitions_of_repetitions_are_refused(pattern: str) -> None:
    assert find_pattern_error(pattern) == "invalid repeat count"


@pytest.mark.parametrize("depth", [100, 5000])
def test_depth_harms_nobody(depth: int) -> None:
    assert find_pattern_error("(" * depth + "a" + ")" * depth) in (None, "missing closing )", TOO_LARGE)
    assert find_pattern_error("(" * depth) == "missing closing )"


def test_long_lists_of_topics_are_expressions() -> None:
    names = [f"a-topic-with-a-name-{number}" for number in range(500)]
    pattern = "|".join(names)
    assert find_pattern_error(pattern) is None
    assert match_names([pattern], names) == {pattern: sorted(names)}


@pytest.mark.parametrize(
    "pattern", ["(x+x+)+y", "(a|aa)+b", "(.*a.*){20}c", ".*[ab].{240}c", "(a?){500}a{500}"]
)
def test_what_backtracking_would_never_end_ends(pattern: str) -> None:
    names = ["x" * 249, "a" * 249, "ab" * 124]
    assert match_names([pattern], names) == {pattern: []}


def test_expressions_that_do_not_fit_together_are_matched_one_by_one() -> None:
    patterns = [f"{number}.{{800}}|topic-{number}" for number in range(100)]
    found = match_names(patterns, ["topic-7", "other"])
    assert {pattern: names for pattern, names in found.items() if names} == {patterns[7]: ["topic-7"]}
