"""What would have come of other properties, and of fewer inputs."""

from typing import Any

import pytest

from coordinator.control.replay.recording_file import RecordingFile
from coordinator.control.replay.recording_player import PlayedInput
from coordinator.control.replay.replay_diagnosis import ReplayLedger
from coordinator.control.replay.what_if import (
    AddedInput,
    InputFilter,
    InvalidChange,
    WhatIf,
    parse_changed_properties,
)
from coordinator.core.wire_name import get_wire_name
from tests.control.replay.runs import MIDDLE, run
from tests.control.replay.story import two_members


@pytest.fixture(scope="module")
def recorded() -> RecordingFile:
    return two_members()


def played(recorded: RecordingFile, *options: str, drop: tuple[str, ...] = ()) -> tuple[list[Any], list[str]]:
    """All steps, and the names of all events."""
    dropped = InputFilter(drop)
    what_if = WhatIf(recorded, parse_changed_properties(recorded, options), dropped)
    steps = list(what_if.play_steps())
    dropped.check_all_used()
    events = [
        get_wire_name(type(event))
        for step in steps
        if step.outcome is not None
        for event in step.outcome.events
    ]
    return steps, events


def test_nothing_is_otherwise_where_nothing_was_changed(recorded: RecordingFile) -> None:
    steps, events = played(recorded)
    assert all(isinstance(step, PlayedInput) and step.is_same for step in steps)
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
                steps = list(WhatIf(found, {}, InputFilter(())).play_steps())
                assert all(isinstance(step, PlayedInput) and step.is_same for step in steps)


def test_a_group_that_may_have_one_member(recorded: RecordingFile) -> None:
    _, events = played(recorded, "group.max.size=1")
    assert "JoinRefused" in events
    assert "MemberExpired" not in events


def test_a_session_timeout_that_is_refused(recorded: RecordingFile) -> None:
    _, events = played(recorded, "group.min.session.timeout.ms=60000")
    assert set(events) == {"JoinRefused", "HeartbeatRefused", "SyncRefused", "CommitRefused"}


def test_an_earlier_timer_fires_when_it_is_due(recorded: RecordingFile) -> None:
    """Without the wait for more members the first generation has one member, earlier than in the recording."""
    steps, _ = played(recorded, "group.initial.rebalance.delay.ms=1000")
    added = [step for step in steps if isinstance(step, AddedInput)]
    (first, *_) = added
    assert first.description.startswith("fire join")
    assert first.now.monotonic_ms - recorded.header["mono_ms"] == 1000


def test_a_session_that_does_not_end(recorded: RecordingFile) -> None:
    steps, events = played(recorded, drop=("fire B",))
    assert "MemberExpired" not in events
    assert events.count("RebalanceCompleted") == 1
    assert sum(step.line.count for step in steps if isinstance(step, PlayedInput)) < recorded.inputs


@pytest.mark.parametrize("words", ["fire heartbeat B", "fire B", "B fire"])
def test_words_say_which_input(recorded: RecordingFile, words: str) -> None:
    _, events = played(recorded, drop=(words,))
    assert "MemberExpired" not in events


def test_the_ledger_says_why_it_is_otherwise(recorded: RecordingFile) -> None:
    def causes(*drops: str) -> list[str]:
        what_if = WhatIf(recorded, {}, InputFilter(drops))
        ledger = ReplayLedger(what_if.player)
        for step in what_if.play_steps():
            ledger.on_step(step)
        return [entry.cause for entry in ledger.list_entries()]

    assert causes() == ["member joined", "session expired"]
    assert causes("fire B") == ["member joined", "leader rejoined"]


def test_until_an_input(recorded: RecordingFile) -> None:
    steps = list(WhatIf(recorded, {}, InputFilter(())).play_steps(until=4))
    assert sum(step.line.count for step in steps if isinstance(step, PlayedInput)) == 4


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
def test_an_invalid_property_is_refused(recorded: RecordingFile, option: str, word: str) -> None:
    with pytest.raises(InvalidChange, match=word):
        parse_changed_properties(recorded, [option])


@pytest.mark.parametrize("words", ["fire carol", "JoinGroup fire", "99999", " "])
def test_a_filter_without_matching_inputs_is_refused(recorded: RecordingFile, words: str) -> None:
    with pytest.raises(InvalidChange):
        played(recorded, drop=(words,))
