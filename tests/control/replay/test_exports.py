"""Recordings become scenarios that tests/scenarios runs, and tests for pytest."""

import shlex
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from coordinator.control.replay.pytest_export import format_pytest
from coordinator.control.replay.recording_file import BadRecording, RecordingFile
from coordinator.control.replay.scenario_export import format_scenario
from coordinator.control.replay.what_if import InvalidChange
from tests.control.replay.runs import MIDDLE, run
from tests.control.replay.story import RecordedStory, two_members
from tests.scenarios.runner import Story


def events_of(recorded: RecordingFile) -> list[tuple[str, object]]:
    """What happened in a recording, without ids."""
    return [
        (event["$"].removeprefix("events."), event.get("generation_id"))
        for line in recorded.lines
        for event in line.outcome.get("out", {}).get("events", ())
    ]


def test_a_scenario_is_the_same_story() -> None:
    """Told once more, recorded once more, the same happens."""
    recorded = two_members("leave A", "fetch A orders:0", "offset-delete A orders:0", "delete admin g")
    commands = [line[2:] for line in format_scenario(recorded).splitlines() if line.startswith("> ")]
    again = RecordedStory().tell(*commands)
    assert events_of(again) == events_of(recorded)
    assert len(events_of(again)) > 15
    assert [line.fields.get("request", line.kind) for line in again.lines] == [
        line.fields.get("request", line.kind) for line in recorded.lines
    ]


def test_simulated_runs_are_exported_as_scenarios() -> None:
    """Whatever happened there, each command is one that the runner takes."""
    reported = 0
    for seed in range(4):
        for recorded in run(seed, of_consumers=False).recorded():
            story = Story()
            for line in format_scenario(recorded).splitlines():
                if line.startswith("> "):
                    story.command(line[2:])
                    reported += 1
    assert reported > 200


def test_inexpressible_inputs_become_comments() -> None:
    (snapshot,) = [
        one
        for one in run(3, of_consumers=False, begins_after=MIDDLE).recorded()
        if one.header["start"] != "empty"
    ][:1]
    with pytest.raises(BadRecording, match="new group"):
        format_scenario(snapshot)
    with pytest.raises(BadRecording, match="new group"):
        format_pytest(snapshot, None)
    consumers = [one for seed in range(4) for one in run(seed, of_consumers=True).recorded()]
    refused = 0
    for recorded in consumers:
        if "ConsumerGroupHeartbeatRequest" in [line.fields.get("request") for line in recorded.lines]:
            refused += 1
            with pytest.raises(BadRecording, match="consumer group"):
                format_scenario(recorded)
    assert refused


class Played:
    """Replaces the fixture of pytest-groupd, the group and the consumer, and logs their calls."""

    def __init__(self, shape: list[Any]) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.shape = shape
        self.bootstrap = "127.0.0.1:1"

    def group(self, group_id: str) -> "Played":
        self.said.append(("group", group_id))
        return self

    def stand_in(self, client_id: str, *, topics: list[str]) -> "Played":
        self.said.append(("join", client_id, topics))
        return Role(self, client_id)

    def member(self, client_id: str) -> "Played":
        return Role(self, client_id)

    def wait(self, **what: Any) -> None:
        self.said.append(("wait", what.get("state"), what.get("members", 0)))

    @property
    def ledger(self) -> list[Any]:
        return self.shape


class Role(Played):
    def __init__(self, of: Played, client_id: str) -> None:
        self.said, self.client_id = of.said, client_id

    def leave(self) -> None:
        self.said.append(("leave", self.client_id))

    def stall(self) -> None:
        self.said.append(("stall", self.client_id))

    def expire(self) -> None:
        self.said.append(("expire", self.client_id))

    def rejoin(self) -> None:
        self.said.append(("rejoin", self.client_id))

    def close(self) -> None:
        self.said.append(("close", self.client_id))


def ran(text: str) -> Played:
    """Runs the test of a text, with everything in it but the groups themselves."""
    names: dict[str, Any] = {}
    with patch.object(pytest, "mark", SimpleNamespace(groupd=lambda **_: lambda test: test)):
        exec(compile(text, "emitted", "exec"), names)
    played = Played(names["SHAPE"])
    names["shape_of"] = lambda entry: entry

    def real(bootstrap: str) -> Role:
        played.said.append(("real", bootstrap))
        return Role(played, "me")

    names["RealConsumer"] = real
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test(played)
    return played


def test_an_exported_test_plays_the_other_members() -> None:
    pytest.importorskip("confluent_kafka")
    played = ran(format_pytest(two_members("leave A"), None))
    assert played.said == [
        ("group", "g"),
        ("real", "127.0.0.1:1"),
        ("wait", "PreparingRebalance", 0),
        ("join", "B", ["orders"]),
        ("wait", "Stable", 2),
        ("stall", "B"),
        ("expire", "B"),
        ("wait", "Stable", 1),
        ("close", "me"),
        ("wait", "Empty", 0),
        ("close", "me"),
    ]
    assert [(cause, actor) for cause, actor, _ in played.shape] == [
        ("member joined", "A"),
        ("session expired", "B"),
        ("member left", "A"),
    ]
    assert played.shape[1][2] == {"A": {"orders": [0, 1]}}


def test_the_real_consumer_can_be_chosen_and_must_exist() -> None:
    played = ran(format_pytest(two_members(), "B"))
    assert ("join", "A", ["orders"]) in played.said
    assert ("expire", "B") in played.said
    with pytest.raises(InvalidChange, match="carol"):
        format_pytest(two_members(), "carol")


def test_names_are_no_code() -> None:
    """Whatever clients call themselves, the text is the same test."""
    hostile = shlex.quote('"""\n\\x"; raise SystemExit #{}')
    join = f"join {hostile}"
    recorded = RecordedStory().tell(
        "config delay=0s", join, join, "advance 1s", f"sync {hostile} {hostile}=orders:0"
    )
    text = format_pytest(recorded, None)
    assert ran(text).said[1][0] == "real"
