"""What would have come of other properties, and of fewer inputs."""

from typing import Any

import pytest

from coordinator.control.replay.changes import BadChange, Dropped, changed_properties
from coordinator.control.replay.player import Played
from coordinator.control.replay.recorded import Recorded
from coordinator.control.replay.told import Told
from coordinator.control.replay.what_if import Added, WhatIf
from tests.control.replay.runs import MIDDLE, run
from tests.control.replay.story import two_members


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return two_members()


def played(recorded: Recorded, *options: str, drop: tuple[str, ...] = ()) -> tuple[list[Any], list[str]]:
    """All steps, and the names of all events."""
    dropped = Dropped(drop)
    what_if = WhatIf(recorded, changed_properties(recorded, options), dropped)
    steps = list(what_if.steps())
    dropped.check()
    events = [
        type(event).__name__ for step in steps if step.outcome is not None for event in step.outcome.events
    ]
    return steps, events


def test_nothing_is_otherwise_where_nothing_was_changed(recorded: Recorded) -> None:
    steps, events = played(recorded)
    assert all(isinstance(step, Played) and step.is_same for step in steps)
    assert events.count("MemberExpired") == 1
    assert events.count("RebalanceCompleted") == 2


@pytest.mark.parametrize("of_consumers", [False, True])
@pytest.mark.parametrize("begins_after", [0, MIDDLE])
def test_nor_in_a_simulated_run(of_consumers: bool, begins_after: int) -> None:
    """Timers fire where they fired, and work is done where it was done: none is added."""
    for seed in range(3):
        done = run(seed, of_consumers=of_consumers, begins_after=begins_after)
        with done.core():
            for found in done.recorded():
                steps = list(WhatIf(found, {}, Dropped(())).steps())
                assert all(isinstance(step, Played) and step.is_same for step in steps)


def test_a_group_that_may_have_one_member(recorded: Recorded) -> None:
    _, events = played(recorded, "group.max.size=1")
    assert "JoinRefused" in events
    assert "MemberExpired" not in events


def test_a_session_timeout_that_is_refused(recorded: Recorded) -> None:
    _, events = played(recorded, "group.min.session.timeout.ms=60000")
    assert set(events) == {"JoinRefused", "HeartbeatRefused", "SyncRefused", "CommitRefused"}


def test_a_timer_that_comes_earlier_fires_when_it_is_due(recorded: Recorded) -> None:
    """Without the wait for more members the first generation has one member, before the recording says so."""
    steps, _ = played(recorded, "group.initial.rebalance.delay.ms=1000")
    added = [step for step in steps if isinstance(step, Added)]
    (first, *_) = added
    assert first.what.startswith("fire join")
    assert first.now.monotonic_ms - recorded.header["mono_ms"] == 1000


def test_a_session_that_does_not_end(recorded: Recorded) -> None:
    steps, events = played(recorded, drop=("fire B",))
    assert "MemberExpired" not in events
    assert events.count("RebalanceCompleted") == 1
    assert sum(step.line.count for step in steps if isinstance(step, Played)) < recorded.inputs


@pytest.mark.parametrize("words", ["fire heartbeat B", "fire B", "B fire"])
def test_words_say_which_input(recorded: Recorded, words: str) -> None:
    _, events = played(recorded, drop=(words,))
    assert "MemberExpired" not in events


def test_the_ledger_says_why_it_is_otherwise(recorded: Recorded) -> None:
    def causes(*drops: str) -> list[str]:
        what_if = WhatIf(recorded, {}, Dropped(drops))
        told = Told(what_if.player)
        for step in what_if.steps():
            told.hear(step)
        return [entry.cause for entry in told.entries()]

    assert causes() == ["member joined", "session expired"]
    assert causes("fire B") == ["member joined", "leader rejoined"]


def test_until_an_input(recorded: Recorded) -> None:
    steps = list(WhatIf(recorded, {}, Dropped(())).steps(until=4))
    assert sum(step.line.count for step in steps if isinstance(step, Played)) == 4


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("group.max.size", "NAME=VALUE"),
        ("group.max.sise=2", "group.max.size"),
        ("node.id=2", "not a property"),
        ("group.max.size=many", "group.max.size"),
        ("group.max.size=0", "group.max.size"),
    ],
)
def test_a_property_that_cannot_be_is_told(recorded: Recorded, option: str, word: str) -> None:
    with pytest.raises(BadChange, match=word):
        changed_properties(recorded, [option])


@pytest.mark.parametrize("words", ["fire carol", "JoinGroup fire", "99999", " "])
def test_words_that_say_nothing_of_any_input_are_told(recorded: Recorded, words: str) -> None:
    with pytest.raises(BadChange):
        played(recorded, drop=(words,))
