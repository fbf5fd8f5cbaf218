"""The judge of the soak detects leaks and losses, and reports nothing without them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import pytest

from tests.soak.judge import grown, left, violated
from tests.soak.probe import Sample
from tests.soak.promises import LATE_NS, Promises

REST: Final = Sample(0, 60_000_000, 400_000, Counter(socket=3, log=14, other=5), 0, 0, 0, 2, 5, 0, 0, 30_000)
SAMPLES: Final = 360


def run(blocks: Callable[[float], float], rss: Callable[[float], float] = lambda _: 60e6) -> list[Sample]:
    """Return half an hour of samples of a daemon under a varying load.

    The arguments are functions of the second.
    """
    chance = Random(1)
    return [
        replace(
            REST,
            at_s=5 * number,
            memory_blocks=int(blocks(5 * number) + chance.gauss(0, 4_000)),
            rss_bytes=int(rss(5 * number) + chance.gauss(0, 500_000)),
        )
        for number in range(SAMPLES)
    ]


def test_what_is_flat_passes() -> None:
    assert grown(run(lambda _: 400_000)) == []


def test_what_fills_up_in_the_first_half_passes() -> None:
    assert (
        grown(run(lambda at_s: 300_000 + min(at_s, 800) * 100, lambda at_s: 50e6 + min(at_s, 800) * 1e4))
        == []
    )


def test_a_leak_of_a_few_blocks_for_each_connection_is_seen() -> None:
    (reason,) = grown(run(lambda at_s: 400_000 + 20 * at_s))
    assert "memory_blocks" in reason


def test_a_leak_outside_of_python_is_seen() -> None:
    (reason,) = grown(run(lambda _: 400_000, lambda at_s: 60e6 + 4_000 * at_s))
    assert "rss_bytes" in reason


def test_the_noise_of_a_short_run_is_no_leak() -> None:
    assert grown(run(lambda at_s: 400_000 + 100 * at_s)[:60]) == []


def test_a_daemon_that_is_as_before_passes() -> None:
    # Segments were rolled, their files stay open.
    assert left(REST, replace(REST, descriptors=Counter(socket=3, log=40, other=5), timers=1)) == []


@pytest.mark.parametrize(
    "after",
    [
        replace(REST, connections=1),
        replace(REST, unanswered=1),
        replace(REST, waiters=1),
        replace(REST, tasks=3),
        replace(REST, timers=6),
        replace(REST, answer_bytes=1),
        replace(REST, request_bytes=1),
        replace(REST, descriptors=Counter(socket=4, log=14, other=5)),
        replace(REST, descriptors=Counter(socket=3, log=14, other=6)),
        replace(REST, descriptors=Counter(socket=3, log=14, other=5, deleted=1)),
    ],
)
def test_whatever_is_left_is_seen(after: Sample) -> None:
    assert len(left(REST, after)) == 1


def test_violations_are_seen() -> None:
    counts = {"double_owner": 0, "orphan_partition": 0}
    assert violated(counts) == []
    (reason,) = violated(counts | {"double_owner": 1})
    assert "double_owner" in reason
    with pytest.raises(AssertionError):
        violated({})


PLACE: Final = ("g", "t", 0)


@pytest.fixture
def promises() -> Promises:
    """One commit was acknowledged, and one after it."""
    promises = Promises()
    promises.asked(100, "a.1", {PLACE: 7})
    promises.was_kept(200, "a.1")
    promises.asked(300, "a.2", {PLACE: 8})
    promises.was_kept(400, "a.2")
    return promises


def says(offset: int, token: str) -> dict[tuple[str, str, int], tuple[int, str]]:
    return {PLACE: (offset, token)}


def test_the_last_commit_that_was_acknowledged_is_what_has_to_be_there(promises: Promises) -> None:
    assert promises.broken(says(8, "a.2")) == []
    assert len(promises.broken(says(7, "a.1"))) == 1
    assert len(promises.broken(says(8, "b.1"))) == 1
    assert len(promises.broken({})) == 1


def test_of_commits_at_the_same_time_either_may_be_the_last(promises: Promises) -> None:
    promises.asked(350, "b.1", {PLACE: 5})
    promises.was_kept(500, "b.1")
    assert promises.broken(says(8, "a.2")) == []
    assert promises.broken(says(5, "b.1")) == []


def test_a_commit_without_an_answer_may_be_there_or_not(promises: Promises) -> None:
    promises.asked(500, "a.3", {PLACE: 9})
    promises.has_died(600, "a")
    assert promises.broken(says(8, "a.2")) == []
    assert promises.broken(says(9, "a.3")) == []
    promises.asked(600 + LATE_NS, "b.1", {PLACE: 10})
    promises.was_kept(700 + LATE_NS, "b.1")
    promises.asked(800 + LATE_NS, "b.2", {PLACE: 11})
    promises.was_kept(900 + LATE_NS, "b.2")
    assert len(promises.broken(says(9, "a.3"))) == 1


@pytest.mark.parametrize("forget", [lambda one: one.topic_deleted("t"), lambda one: one.group_deleted("g")])
def test_what_was_deleted_must_be_gone(promises: Promises, forget: Callable[[Promises], None]) -> None:
    promises.asked(500, "a.3", {PLACE: 9})
    forget(promises)
    promises.was_kept(600, "a.3")
    promises.asked(700, "a.4", {PLACE: 10})
    promises.was_kept(800, "a.4")
    assert promises.broken({}) == []
    assert len(promises.broken(says(10, "a.4"))) == 1


def test_an_offset_that_nobody_committed_is_seen(promises: Promises) -> None:
    found = says(8, "a.2") | {("g", "t", 1): (1, "a.2")}
    assert len(promises.broken(found)) == 1
