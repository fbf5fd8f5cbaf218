"""Tables of group records: rebalances and ownership.

Every history has a partition of the offsets log to itself, so that the tables are computed once for all of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.pipeline.gold.silver import ownership_of, rebalances_of
from tests.pipeline.hand_made import HandMade, at, together
from tests.pipeline.rows import Row, in_order_of

History = Callable[[HandMade], None]
HISTORIES: list[History] = []


def history(fill: History) -> History:
    """Register the history of one partition."""
    HISTORIES.append(fill)
    return fill


class Told:
    """The tables, a history's part at a time."""

    def __init__(self) -> None:
        made = [HandMade(number) for number in range(len(HISTORIES))]
        for fill, one in zip(HISTORIES, made, strict=True):
            fill(one)
        whole = together(made)
        self._rebalances: list[Row] = rebalances_of(whole).to_pylist()
        self._ownership: list[Row] = ownership_of(whole).to_pylist()

    def rebalances(self, of: History, *columns: str) -> list[Any]:
        """Rows in the order of these columns, as tuples of them."""
        return self._part(self._rebalances, of, columns)

    def owned(self, of: History, *columns: str) -> list[Any]:
        """The same of ownership."""
        return self._part(self._ownership, of, columns)

    def _part(self, rows: list[Row], of: History, columns: Sequence[str]) -> list[Any]:
        number = HISTORIES.index(of)
        return in_order_of([row for row in rows if row["log_partition"] == number], columns)


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@history
def members_come_and_go(made: HandMade) -> None:
    made.created("g", 0)
    made.generation("g", 1, {"a1": [("t", 0)], "b1": [("t", 1)]}, 1)
    made.generation("g", 2, {"b1": [("t", 0)], "c1": [("t", 1)]}, 2)
    made.emptied("g", 3, 3)


def test_who_came_and_who_left(told: Told) -> None:
    columns = ("generation", "kind", "joined_members", "left_members", "n_stayed", "was_empty", "ended_by")
    assert told.rebalances(members_come_and_go, *columns) == [
        (1, "rebalance", ["a1", "b1"], [], 0, True, "rebalance"),
        (2, "rebalance", ["c1"], ["a1"], 1, False, "emptied"),
        (3, "emptied", [], ["b1", "c1"], 0, False, None),
    ]


@history
def first_seen_in_the_middle(made: HandMade) -> None:
    made.generation("g", 17, {"a1": [("t", 0)]}, 1)
    made.generation("g", 20, {"a1": [("t", 0)]}, 9)


def test_a_group_first_seen_in_the_middle_of_its_life_has_unknown_newcomers(told: Told) -> None:
    columns = ("generation", "joined_members", "left_members", "unseen_generations", "was_empty")
    assert told.rebalances(first_seen_in_the_middle, *columns) == [
        (17, None, None, 0, False),
        (20, [], [], 2, False),
    ]


@history
def deleted_and_made_anew(made: HandMade) -> None:
    made.generation("g", 5, {"a1": [("t", 0)]}, 1)
    made.emptied("g", 6, 2)
    made.deleted("g", 3)
    made.created("g", 4)
    made.generation("g", 1, {"a1": [("t", 0)]}, 5)


def test_a_new_life_of_a_group_is_no_rewind_of_generations(told: Told) -> None:
    columns = ("log_offset", "generation", "joined_members", "ended_by")
    assert told.rebalances(deleted_and_made_anew, *columns) == [
        (0, 5, None, "emptied"),
        (1, 6, [], "deleted"),
        (4, 1, ["a1"], None),
    ]
    assert told.owned(deleted_and_made_anew, "from_log_offset", "to_log_offset", "ended_by") == [
        (0, 1, "emptied"),
        (4, None, None),
    ]


@history
def a_static_member_is_replaced(made: HandMade) -> None:
    made.generation("g", 1, {"a1@one": [("t", 0)], "b1@two": [("t", 1)]}, 1)
    made.generation("g", 1, {"a2@one": [("t", 0)], "b1@two": [("t", 1)]}, 5)
    made.generation("g", 2, {"a2@one": [("t", 0), ("t", 1)]}, 9)


def test_a_static_member_that_comes_back_keeps_what_it_held(told: Told) -> None:
    columns = (
        "generation", "static_replacements", "joined_members", "left_members", "log_offset", "ended_ts",
    )  # fmt: skip
    assert told.rebalances(a_static_member_is_replaced, *columns) == [
        (1, 1, ["one", "two"], [], 0, at(9)),
        (2, 0, [], ["two"], 2, None),
    ]
    held = ("partition", "member", "member_id", "from_ts", "to_ts", "from_generation", "to_generation")
    assert told.owned(a_static_member_is_replaced, *held) == [
        (0, "one", "a1", at(1), None, 1, 2),
        (1, "one", "a2", at(9), None, 2, 2),
        (1, "two", "b1", at(1), at(9), 1, 1),
    ]


@history
def a_partition_goes_and_comes_back(made: HandMade) -> None:
    made.generation("g", 1, {"a1": [("t", 0)]}, 1)
    made.generation("g", 2, {"a1": [], "b1": [("t", 0)]}, 2)
    made.generation("g", 3, {"a1": [("t", 0)]}, 3)


def test_a_partition_that_comes_back_to_a_member_is_held_twice(told: Told) -> None:
    columns = ("member", "from_log_offset", "to_log_offset", "ended_by")
    assert told.owned(a_partition_goes_and_comes_back, *columns) == [
        ("a1", 0, 1, "reassigned"),
        ("a1", 2, None, None),
        ("b1", 1, 2, "reassigned"),
    ]


@history
def two_rebalances_between_commits(made: HandMade) -> None:
    made.generation("g", 1, {"a1": [("t", 0)]}, 1, sync_s=0.5)
    made.commit("g", "t", 0, 1, 10)
    made.commit("h", "t", 0, 1, 11)
    made.commit("g", "t", 0, None, 11.5)
    made.generation("g", 2, {"a1": [("t", 0)], "b1": [("t", 1)]}, 12, sync_s=0.125)
    made.generation("g", 3, {"b1": [("t", 0), ("t", 1)]}, 13)
    made.commit("g", "t", 1, 1, 14)
    made.commit("g", "t", 1, 2, 15)


def test_the_pause_lies_between_the_commits_around_a_generation(told: Told) -> None:
    columns = (
        "generation", "sync_ms", "consumption_pause_ms", "last_commit_before_log_offset",
        "first_commit_after_log_offset", "last_commit_before_ts",
    )  # fmt: skip
    assert told.rebalances(two_rebalances_between_commits, *columns) == [
        (1, 500, None, None, 1, None),
        (2, 125, 4000, 1, 6, at(10)),
        (3, 250, 4000, 1, 6, at(10)),
    ]


@history
def empty_for_a_while(made: HandMade) -> None:
    made.generation("g", 1, {"a1": [("t", 0)]}, 1)
    made.commit("g", "t", 0, 1, 2)
    made.emptied("g", 2, 3)
    made.generation("g", 3, {"a2": [("t", 0)]}, 100)
    made.commit("g", "t", 0, 2, 102)


def test_an_emptied_group_has_no_pause_but_the_next_generation_knows_of_it(told: Told) -> None:
    columns = ("generation", "was_empty", "sync_ms", "consumption_pause_ms", "pause_spans_empty")
    assert told.rebalances(empty_for_a_while, *columns) == [
        (1, True, 250, None, None),
        (2, False, None, None, None),
        (3, True, 250, 100_000, True),
    ]


@history
def a_pause_before_the_group_emptied(made: HandMade) -> None:
    made.generation("g", 1, {"a1": [("t", 0)], "b1": []}, 1)
    made.commit("g", "t", 0, 1, 2)
    made.generation("g", 2, {"a1": [("t", 0)]}, 3)
    made.emptied("g", 3, 4)
    made.generation("g", 4, {"a2": [("t", 0)]}, 100)
    made.commit("g", "t", 0, 2, 102)
    made.generation("g", 5, {"a2": [("t", 0)]}, 103)
    made.commit("g", "t", 0, 3, 104)


def test_a_pause_that_began_before_the_group_emptied_spans_that(told: Told) -> None:
    columns = ("generation", "kind", "consumption_pause_ms", "pause_spans_empty")
    assert told.rebalances(a_pause_before_the_group_emptied, *columns) == [
        (1, "rebalance", None, None),
        (2, "rebalance", 100_000, True),
        (3, "emptied", None, None),
        (4, "rebalance", 100_000, True),
        (5, "rebalance", 2_000, False),
    ]


@history
def commits_alone(made: HandMade) -> None:
    made.commit("g", "t", 0, 1, 2)


def test_no_group_records_make_no_rows(told: Told) -> None:
    assert told.rebalances(commits_alone, "group") == []
    assert told.owned(commits_alone, "group") == []
