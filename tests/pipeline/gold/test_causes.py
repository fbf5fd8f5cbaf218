"""The causes of rebalances, and the partitions that moved."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from pipeline.gold.rebalance_causes import causes
from tests.pipeline.hand_made import HandMade, Partitions

Row = dict[str, Any]
Fill = Callable[[HandMade], None]
TWO = {"a1": [("t", 0), ("t", 1)], "b1": [("t", 2), ("t", 3)]}


def told(fill: Fill) -> list[Row]:
    """The rebalances of the only group of a history."""
    made = HandMade()
    fill(made)
    rows = []
    for source in ("group_generations", "members", "assignments"):
        for row in made.rows(source):
            time: datetime = row["record_ts"]
            rows.append(
                {"protocol": None, "protocol_type": None, "n_members": None, "generation": None}
                | row
                | {"source": source, "record_us": int(time.timestamp() * 1e6)}
                | {"topics": row.get("subscribed_topics"), "tombstone": row.get("tombstone", False)}
            )
    return causes(rows)


def story(fill: Fill, *columns: str) -> list[Any]:
    return [
        tuple(row[name] for name in columns) if len(columns) > 1 else row[columns[0]] for row in told(fill)
    ]


def generations(*members: Mapping[str, Partitions], **options: Any) -> Fill:
    """A group that goes through these, one a second."""

    def fill(made: HandMade) -> None:
        for number, each in enumerate(members, start=1):
            if each:
                made.generation("g", number, each, number, **options)
            else:
                made.emptied("g", number, number)

    return fill


def even(members: Sequence[str], n_partitions: int, *, topic: str = "t") -> dict[str, list[tuple[str, int]]]:
    """As Kafka's range assignor: the first ones have one more."""
    found = {}
    begin = 0
    for place, member in enumerate(members):
        number = n_partitions // len(members) + (place < n_partitions % len(members))
        found[member] = [(topic, n) for n in range(begin, begin + number)]
        begin += number
    return found


def seen_late(made: HandMade) -> None:
    made.generation("g", 17, even(["a1"], 2), 1)


CAUSES: dict[str, tuple[Fill, list[tuple[str, list[str], list[str], list[str]]]]] = {
    "somebody comes, somebody goes, all go": (
        generations(even(["a1"], 4), even(["a1", "b1"], 4), even(["b1"], 4), {}),
        [
            ("first members", ["a@10.0.0.1"], [], []),
            ("came", ["b@10.0.0.1"], [], []),
            ("went", [], ["a@10.0.0.1"], []),
            ("last went", [], ["b@10.0.0.1"], []),
        ],
    ),
    "a client comes back under another member id": (
        generations(even(["a1", "b1"], 4), even(["a2", "b1"], 4)),
        [
            ("first members", ["a@10.0.0.1", "b@10.0.0.1"], [], []),
            ("came back", [], [], ["a@10.0.0.1"]),
        ],
    ),
    "one comes back and another one goes": (
        generations(even(["a1", "b1"], 4), even(["a2"], 4)),
        [
            ("first members", ["a@10.0.0.1", "b@10.0.0.1"], [], []),
            ("came and went", [], ["b@10.0.0.1"], ["a@10.0.0.1"]),
        ],
    ),
    "the same ones again": (
        generations(TWO, TWO),
        [("first members", ["a@10.0.0.1", "b@10.0.0.1"], [], []), ("joined again", [], [], [])],
    ),
    "the topic has more partitions": (
        generations(even(["a1", "b1"], 4), even(["a1", "b1"], 6)),
        [("first members", ["a@10.0.0.1", "b@10.0.0.1"], [], []), ("partitions changed", [], [], [])],
    ),
    "they ask for other topics": (
        generations(even(["a1", "b1"], 4), even(["a1", "b1"], 4, topic="u")),
        [("first members", ["a@10.0.0.1", "b@10.0.0.1"], [], []), ("subscription changed", [], [], [])],
    ),
    "another group of the name, in the middle of its life": (
        seen_late,
        [("unknown", [], [], [])],
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_what_differs_says_why(name: str) -> None:
    fill, expected = CAUSES[name]
    assert story(fill, "cause", "came", "went", "came_back") == expected


def test_a_group_that_was_empty_or_deleted_begins_again() -> None:
    def fill(made: HandMade) -> None:
        made.created("g", 0)
        made.generation("g", 1, even(["a1"], 2), 1)
        made.emptied("g", 2, 2)
        made.generation("g", 3, even(["b1"], 2), 3)
        made.deleted("g", 4)
        made.generation("g", 1, even(["c1"], 2), 5)

    assert story(fill, "cause", "moved") == [
        ("first members", None),
        ("last went", None),
        ("first members", 0),
        ("first members", None),
    ]


def test_the_two_steps_of_a_cooperative_assignor() -> None:
    """What it takes away first and gives to another one then has moved once."""
    fill = generations(
        {"a1": [("t", 0), ("t", 1), ("t", 2), ("t", 3)]},
        {"a1": [("t", 0), ("t", 1)], "b1": []},
        {"a1": [("t", 0), ("t", 1)], "b1": [("t", 2), ("t", 3)]},
        protocol="cooperative-sticky",
        topics=["t"],
    )
    assert story(fill, "cause", "moved", "needless") == [
        ("first members", None, None),
        ("came", None, None),
        ("second step", 2, 0),
    ]


def test_what_moved_and_need_not_have() -> None:
    """Range gives all members other partitions when the first member leaves. The remaining members could have
    kept theirs."""
    fill = generations(even(["a1", "b1", "c1"], 6), even(["b1", "c1"], 6), even(["b1", "c1", "d1"], 6))
    assert story(fill, "n_partitions", "moved", "needless", "fewest", "most", "idle") == [
        (6, None, None, 2, 2, 0),
        (6, 3, 1, 3, 3, 0),  # b had 2, 3 and has 0, 1, 2; c had 4, 5 and has 3, 4, 5: 3 went to c for nothing
        (6, 3, 1, 2, 2, 0),
    ]


def test_a_sticky_assignor_moves_only_what_it_has_to() -> None:
    fill = generations(
        {"a1": [("t", 0), ("t", 1)], "b1": [("t", 2), ("t", 3)], "c1": [("t", 4), ("t", 5)]},
        {"a1": [("t", 0), ("t", 1), ("t", 4)], "b1": [("t", 2), ("t", 3), ("t", 5)]},
    )
    assert story(fill, "moved", "needless")[1] == (2, 0)


def test_who_has_nothing_is_idle() -> None:
    fill = generations(even(["a1", "b1", "c1"], 2))
    assert story(fill, "fewest", "most", "idle") == [(0, 1, 1)]


def test_what_cannot_be_read_moves_nothing_that_is_known() -> None:
    fill = generations({"a1": []}, {"a1": [], "b1": []}, is_readable=False, protocol_type="connect")
    assert story(fill, "cause", "n_partitions", "moved", "needless", "idle") == [
        ("first members", None, None, None, None),
        ("came", None, None, None, None),
    ]


def test_a_static_member_that_takes_its_own_place_is_no_rebalance() -> None:
    def fill(made: HandMade) -> None:
        made.generation("g", 1, {"a1@i": [("t", 0)], "b1@j": [("t", 1)]}, 1)
        made.generation("g", 1, {"a2@i": [("t", 0)], "b1@j": [("t", 1)]}, 2)
        made.generation("g", 2, {"a2@i": [("t", 0), ("t", 1)]}, 3)

    assert story(fill, "generation", "cause", "moved", "needless") == [
        (1, "first members", None, None),
        (2, "went", 1, 0),
    ]
