"""Bodies of waits: misspelt fields and invalid values are refused with the name of the field."""

from typing import Any

import msgspec
import pytest

from coordinator.control.diagnosis.wait_conditions import (
    GroupConditions,
    WaitConditions,
    build_conditions,
    parse_within_ms,
)
from coordinator.control.problem import Problem, ProblemKind


def read(body: Any) -> WaitConditions:
    return msgspec.json.decode(msgspec.json.encode(body), type=WaitConditions)


@pytest.mark.parametrize(
    "body",
    [
        {"sate": "Stable"},
        {"members": {"mim": 3}},
        {"members": "3"},
        {"generation": {"least": 3}},
        {"rebalanced": {"causes": "x"}},
        {"owned": "orders"},
        {"owner": ["orders-0"]},
        {"committed": {"orders-0": "1"}},
    ],
)
def test_misspelt_fields_are_refused(body: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(body)


@pytest.mark.parametrize(
    ("body", "pointer", "word"),
    [
        ({}, "", "condition"),
        ({"state": "stable"}, "/state", "did you mean Stable?"),
        ({"state": "up"}, "/state", "PreparingRebalance"),
        ({"members": -1}, "/members", "less than 0"),
        ({"members": {"min": 3, "max": 2}}, "/members/max", "less than min"),
        ({"owned": ["x"] * 1001}, "/owned", "1001"),
        ({"owner": {"orders": "alice"}}, "/owner/orders", "orders-3"),
        ({"owner": {"orders-": "alice"}}, "/owner/orders-", "orders-3"),
        ({"committed": {"orders-0": -1}}, "/committed/orders-0", "less than 0"),
        ({"lag_max": -1}, "/lag_max", "less than 0"),
        ({"state": "Stable", "topics": ["orders"]}, "/topics", "lag_max"),
        ({"state": "Stable", "after": 3}, "/after", "rebalanced"),
        ({"rebalanced": {"cause": "boredom"}}, "/rebalanced/cause", "session expired"),
        ({"rebalanced": {"cause": "sesion expired"}}, "/rebalanced/cause", "did you mean session expired?"),
        ({"quiet": "soon"}, "/quiet", "duration"),
    ],
)
def test_invalid_values_are_refused(body: Any, pointer: str, word: str) -> None:
    with pytest.raises(Problem) as raised:
        build_conditions(read(body))
    assert raised.value.kind is ProblemKind.BAD_REQUEST
    assert raised.value.fields == {"pointer": pointer}
    assert word in raised.value.detail


def test_how_long_is_bounded() -> None:
    assert parse_within_ms(read({})) == 10_000
    assert parse_within_ms(read({"within": "10m"})) == 600_000
    with pytest.raises(Problem, match="longer than 10 minutes"):
        parse_within_ms(read({"within": "11m"}))


def test_a_check_has_no_duration() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"state": "Stable", "within": "1s"}', type=GroupConditions)


EMPTY: dict[str, Any] = {"clients": [], "absent": [], "owned": [], "owner": {}, "committed": {}}


@pytest.mark.parametrize("field", EMPTY)
def test_an_empty_list_is_no_condition(field: str) -> None:
    """A test that computes the list need not leave the field out where nothing is in it."""
    assert build_conditions(read({field: EMPTY[field]})) == []
    assert len(build_conditions(read({field: EMPTY[field], "state": "Stable"}))) == 1


def test_empty_topics_and_an_empty_range_restrict_nothing() -> None:
    assert len(build_conditions(read({"state": "Stable", "topics": []}))) == 1
    bodies: list[Any] = [
        {"lag_max": 0, "topics": []},
        {"generation": {}},
        {"members": {}},
        {"rebalanced": {}},
    ]
    for body in bodies:
        assert len(build_conditions(read(body))) == 1, body
