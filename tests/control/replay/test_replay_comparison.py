"""A core that is another one is found at the first input of which something else comes."""

from typing import Any

import pytest
from msgspec import structs

from coordinator.control.replay.recording_file import RecordingFile
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.classic.classic_member import FIRST_REPORT_MS
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_requests import GroupTimerKey, Request
from coordinator.group.group_shard import GroupShard
from tests.control.replay.runs import run


@pytest.fixture(scope="module")
def recorded() -> RecordingFile:
    """With many inputs of all kinds."""
    return max(run(3, of_consumers=False, steps=900).recorded(), key=lambda one: len(one.lines))


def test_a_rule_of_time_that_is_another(recorded: RecordingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another limit for the report of a long wait, the replay differs from the first rebalance with one."""
    name = "coordinator.group.classic.classic_member.FIRST_REPORT_MS"
    monkeypatch.setattr(name, FIRST_REPORT_MS - 1)
    different = compare_recording(recorded).different
    assert different is not None
    started = [line.number for line in recorded.lines if "events.RebalanceStarted" in str(line.outcome)]
    assert different.line.number == started[0]
    fields = format_comparison(compare_recording(recorded)).splitlines()[1:]
    assert fields
    assert all("timers" in field for field in fields)


@pytest.mark.parametrize("place", [0, 7, 60, 150])
def test_one_answer_that_is_another(recorded: RecordingFile, place: int) -> None:
    spoilt: list[int] = []
    asked = 0

    class Mutant(GroupShard):
        def handle(self, request: Request, context: Context, now: Now) -> Outcome:
            return self.spoil(super().handle(request, context, now))

        def fire_timer(
            self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None
        ) -> Outcome:
            return self.spoil(super().fire_timer(key, now, time_source))

        def spoil(self, outcome: Outcome) -> Outcome:
            nonlocal asked
            asked += 1
            if asked <= place or spoilt or not outcome.replies:
                return outcome
            ((waiter, reply), *others) = outcome.replies
            spoilt.append(waiter)
            return structs.replace(outcome, replies=[(waiter + 1_000_000, reply), *others])

    comparison = compare_recording(recorded, Mutant)
    assert comparison.different is not None
    assert spoilt
    here: dict[str, Any] = comparison.different.outcome_fields["out"]
    there: dict[str, Any] = comparison.different.line.outcome["out"]
    assert here["replies"][0][0] == spoilt[0] + 1_000_000
    assert here["replies"][0][1:] == there["replies"][0][1:]
    text = format_comparison(comparison).splitlines()
    assert text[0].startswith(f"input {comparison.different.line.number} ")
    assert len(text) == 2
    assert f"recorded {spoilt[0]}, here {spoilt[0] + 1_000_000}" in text[1]


def test_a_heartbeat_that_is_answered_otherwise(recorded: RecordingFile) -> None:
    """This includes heartbeats that share a line."""
    beats = 0

    class Deaf(GroupShard):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            beat = self.try_heartbeat
            self.try_heartbeat = lambda request, context, now_ms: self.count(beat(request, context, now_ms))

        def count(self, response: object | None) -> object | None:
            nonlocal beats
            beats += response is not None
            return None if beats == 3 else response

    different = compare_recording(recorded, Deaf).different
    assert different is not None
    assert different.line.kind == "beat"
    due = 0
    for line in recorded.lines:
        due += line.count if line.kind == "beat" else 0
        if due >= 3:
            assert different.line.number == line.number
            break


def test_an_error_that_leaves_the_core_is_a_difference(recorded: RecordingFile) -> None:
    class Broken(GroupShard):
        def fire_timer(
            self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None
        ) -> Outcome:
            raise AssertionError("a rule was broken")

    comparison = compare_recording(recorded, Broken)
    assert comparison.different is not None
    assert comparison.different.line.kind == "fire"
    assert "a rule was broken" in format_comparison(comparison)


def test_until_an_input(recorded: RecordingFile) -> None:
    comparison = compare_recording(recorded, until=30)
    assert comparison.different is None
    assert 30 <= comparison.inputs < recorded.inputs
