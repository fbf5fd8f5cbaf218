"""Files that are not valid recordings of this version are refused in a sentence."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
from msgspec import json

from coordinator import __version__
from coordinator.control.diagnosis.oracle import OracleConfig
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.replay.pytest_export import format_pytest
from coordinator.control.replay.recording_file import BadRecording, read_recording
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison, format_state
from coordinator.control.replay.replay_diagnosis import find_violations
from coordinator.control.replay.scenario_export import format_scenario
from coordinator.control.replay.what_if import InputFilter, InvalidChange, WhatIf
from tests.control.replay.recorder import lines_of
from tests.control.replay.runs import run
from tests.control.replay.story import as_lines, two_members


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return lines_of(run(3, of_consumers=False, begins_after=15).recorder.recordings[0])


def changed(line: bytes, **fields: object) -> bytes:
    return json.encode(json.decode(line) | fields) + b"\n"


Spoil = Callable[[list[bytes]], list[bytes]]


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda _: [], "empty"),
        (lambda _: [b"PK\x03\x04"], "recording"),
        (lambda _: [b"[1, 2]\n"], "recording"),
        (lambda _: [b'{"a": 1}\n'], "recording"),
        (lambda lines: [changed(lines[0], format=2), *lines[1:]], "format 2"),
        (lambda lines: [changed(lines[0], format="1"), *lines[1:]], "recording"),
        (lambda lines: [changed(lines[0], groupd="9.9.9"), *lines[1:]], "9.9.9"),
        (lambda lines: [changed(lines[0], config={}), *lines[1:]], "property"),
        (lambda lines: [changed(lines[0], config=[]), *lines[1:]], "first line"),
        (lambda lines: [changed(lines[0], mono_ms=None), *lines[1:]], "first line"),
        (lambda lines: [changed(lines[0], wall_ms=10**24), *lines[1:]], "first line"),
        (lambda lines: [*lines[:3], changed(lines[3], mono_ms=10**24), *lines[4:]], "line 4"),
        (lambda lines: [changed(lines[0], topics=[]), *lines[1:]], "topics"),
        (lambda lines: [changed(lines[0], start={"$": "os.system"}), *lines[1:]], "class"),
        (lambda lines: [changed(lines[0], start={"$": "cut.Cut", "x": 1}), *lines[1:]], "no field"),
        (lambda lines: [changed(lines[0], start=7), *lines[1:]], "first line"),
        (lambda lines: lines[:-1], "truncated"),
        (lambda lines: [*lines[:3], lines[3][:-20]], "truncated"),
        (lambda lines: [*lines[:3], *lines[4:]], "missing"),
        (lambda lines: [*lines[:-1], changed(lines[-1], inputs=1)], "missing"),
        (lambda lines: [*lines, lines[-1]], "follows the end"),
        (lambda lines: [*lines[:3], b"{}\n", *lines[3:]], "line 4"),
        (lambda lines: [*lines[:3], b"nonsense\n", *lines[3:]], "JSON"),
        (lambda lines: [*lines[:3], b"[" * 100_000 + b"\n", *lines[3:]], "line 4"),
    ],
)
def test_invalid_recordings_are_refused(lines: list[bytes], spoil: Spoil, word: str) -> None:
    with pytest.raises(BadRecording) as raised:
        compare_recording(read_recording(spoil(lines)))
    assert word in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_impossible_load_is_refused() -> None:
    """It is a defect of the file, not an outcome of the core."""
    lines = lines_of(run(0, of_consumers=False).recorder.recordings[0])
    number = next(number for number, line in enumerate(lines) if "load" in json.decode(line))
    durable = json.decode(lines[number])["load"] | {"offsets": 7}
    lines[number] = changed(lines[number], load=durable)
    with pytest.raises(BadRecording, match="result of the log"):
        compare_recording(read_recording(lines))


def test_another_version_is_played_on_request(lines: list[bytes]) -> None:
    other = [changed(lines[0], groupd="9.9.9"), *lines[1:]]
    with pytest.raises(BadRecording, match=__version__):
        read_recording(other)
    assert compare_recording(read_recording(other, any_version=True)).different is None


def test_a_changed_line_is_refused_or_differs(lines: list[bytes]) -> None:
    """Bytes that were changed at random end in a sentence, in a difference, or do not matter."""
    chance = random.Random(7)
    ends = set[str]()
    for _ in range(150):
        place = chance.randrange(len(lines))
        line = bytearray(lines[place])
        for _ in range(chance.randint(1, 3)):
            line[chance.randrange(len(line) - 1)] = chance.choice(b'0129{}[]":,$abn')
        try:
            comparison = compare_recording(read_recording([*lines[:place], bytes(line), *lines[place + 1 :]]))
            ends.add("same" if comparison.different is None else "other")
        except BadRecording:
            ends.add("bad")
    assert ends >= {"bad", "other"}


VALUES: Final[tuple[Any, ...]] = (
    None,
    0,
    -1,
    7,
    "x",
    "",
    [],
    {},
    [1, 2],
    {"a": 1},
    "$b:AAAA",
    {"$t": []},
    10**30,
    True,
    1.5,
)


def mutated(chance: random.Random, form: Any) -> Any:
    """A form with another value somewhere in it, or without one."""
    if isinstance(form, dict) and form and chance.random() < 0.8:
        name, form = chance.choice(list(form)), dict(form)
        form[name] = mutated(chance, form[name])
        return {key: value for key, value in form.items() if key != name} if chance.random() < 0.15 else form
    if isinstance(form, list) and form and chance.random() < 0.8:
        place = chance.randrange(len(form))
        return [*form[:place], mutated(chance, form[place]), *form[place + 1 :]]
    return chance.choice(VALUES)


def played_in_every_way(lines: list[bytes]) -> None:
    recorded = read_recording(lines)
    comparison = compare_recording(recorded)
    assert format_comparison(comparison)
    assert format_state(comparison)
    for step in WhatIf(recorded, {}, InputFilter(())).play_steps():
        assert step.now
    find_violations(recorded, OracleName.DOUBLE_OWNER, OracleConfig(5_000, 30_000, oracle_commits=True))
    assert format_scenario(recorded)
    assert format_pytest(recorded, None)


def test_changed_values_are_refused_in_a_sentence() -> None:
    """However a file is played."""
    chance, bad, rounds = random.Random(19), 0, 120
    sound = as_lines(two_members("leave A"))
    played_in_every_way(sound)
    for _ in range(rounds):
        place = chance.randrange(len(sound))
        line = json.encode(mutated(chance, json.decode(sound[place]))) + b"\n"
        with suppress(BadRecording, InvalidChange):
            played_in_every_way([*sound[:place], line, *sound[place + 1 :]])
            continue
        bad += 1
    assert 0 < bad < rounds


def test_a_gap_of_centuries_is_played_to_its_end() -> None:
    """The work does not grow with the time between two inputs."""
    lines = as_lines(two_members("join C", "join C"))
    far = [changed(line, mono_ms=10**14, wall_ms=10**14) for line in lines[-3:-1]]
    recorded = read_recording([*lines[:-3], *far, lines[-1]])
    for oracle in OracleName:
        find_violations(
            recorded,
            oracle,
            OracleConfig(oracle_orphan_ms=5_000, oracle_stuck_ms=30_000, oracle_commits=True),
        )
    for dropped in ((), ("fire",)):
        with suppress(BadRecording):
            list(WhatIf(recorded, {}, InputFilter(dropped)).play_steps())
