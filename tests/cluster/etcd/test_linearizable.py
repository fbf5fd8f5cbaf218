"""The linearizability check itself: it rejects impossible histories and accepts possible ones."""

import pytest

from tests.cluster.etcd.linearizable import COMMIT, FETCH, Operation, verdicts
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking

ILLEGAL, OK = "Illegal", "Ok"
LONG = 1_000_000_000
"""For a client that asks again."""


def committed(value: int, begin: int, end: int | None) -> Operation:
    return Operation("a", value, COMMIT, value, begin, end)


def repeated(value: int, begin: int, end: int | None) -> Operation:
    return committed(value, begin, end)._replace(is_repeated=True)


def fetched(value: int, begin: int, end: int) -> Operation:
    return Operation("a", 100 + begin, FETCH, value, begin, end)


@pytest.mark.parametrize(
    ("operations", "verdict"),
    [
        ([fetched(-1, 0, 1), committed(1, 2, 3), fetched(1, 4, 5)], OK),
        ([committed(1, 0, 1), committed(2, 2, 3), fetched(1, 4, 5)], ILLEGAL),
        ([committed(1, 0, 1), fetched(-1, 2, 3)], ILLEGAL),
        ([committed(1, 0, 9), committed(2, 1, 8), fetched(2, 10, 11), fetched(2, 12, 13)], OK),
        ([committed(1, 0, 9), committed(2, 1, 8), fetched(2, 10, 11), fetched(1, 12, 13)], ILLEGAL),
        ([committed(1, 0, 1), committed(2, 2, None), fetched(1, 3, 4), fetched(2, 5, 6)], OK),
        ([committed(1, 0, 1), committed(2, 2, None), fetched(2, 3, 4), fetched(1, 5, 6)], ILLEGAL),
        ([committed(1, 0, 5), fetched(1, 1, 2), fetched(-1, 3, 4)], ILLEGAL),
        ([committed(1, 0, LONG), fetched(1, 1, 2), committed(2, 3, 4), fetched(1, 5, 6)], ILLEGAL),
        ([repeated(1, 0, LONG), fetched(1, 1, 2), committed(2, 3, 4), fetched(1, 5, 6)], OK),
        (
            [repeated(1, 0, None), fetched(1, 1, 2), fetched(2, 5, 6), fetched(1, 7, 8), committed(2, 3, 4)],
            OK,
        ),
        ([repeated(1, 0, 9), fetched(1, 1, 2), committed(2, 3, 4), fetched(1, 5, 6)], ILLEGAL),
        (
            [
                repeated(1, 0, LONG),
                fetched(1, 1, 2),
                committed(2, LONG + 1, LONG + 2),
                fetched(1, LONG + 3, LONG + 4),
            ],
            ILLEGAL,
        ),
    ],
    ids=[
        "in order",
        "a stale fetch",
        "a lost commit",
        "two at a time",
        "two at a time, and back",
        "nobody said, and it came late",
        "nobody said, and it went again",
        "seen, and unseen before it was answered",
        "again, of a client that asks once",
        "again, of one that asks again",
        "again, and nobody said",
        "again, of one that had no time to",
        "again, after its answer",
    ],
)
def test_what_clients_saw_is_judged(operations: list[Operation], verdict: str) -> None:
    others = [each._replace(key="b") for each in (committed(1, 0, 1), fetched(1, 2, 3))]
    try:
        found = verdicts([*operations, *others])
    except CannotBuild as reason:
        lacking(f"Porcupine: {reason}")
        return
    assert found == {"a": verdict, "b": OK}
