"""What is no recording that this groupd can play is told so, in a sentence."""

import random
from collections.abc import Callable

import pytest
from msgspec import json

from coordinator import __version__
from coordinator.control.replay.compared import compare
from coordinator.control.replay.recorded import BadRecording, read
from tests.control.replay.recorder import lines_of
from tests.control.replay.runs import run


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
        (lambda _: [b"PK\x03\x04"], "no recording"),
        (lambda _: [b"[1, 2]\n"], "no recording"),
        (lambda _: [b'{"a": 1}\n'], "no recording"),
        (lambda lines: [changed(lines[0], format=2), *lines[1:]], "format 2"),
        (lambda lines: [changed(lines[0], format="1"), *lines[1:]], "no recording"),
        (lambda lines: [changed(lines[0], groupd="9.9.9"), *lines[1:]], "9.9.9"),
        (lambda lines: [changed(lines[0], config={}), *lines[1:]], "property"),
        (lambda lines: [changed(lines[0], config=[]), *lines[1:]], "how the group begins"),
        (lambda lines: [changed(lines[0], mono_ms=None), *lines[1:]], "when it begins"),
        (lambda lines: [changed(lines[0], topics=[]), *lines[1:]], "topics"),
        (lambda lines: [changed(lines[0], start={"$": "os.system"}), *lines[1:]], "no such class"),
        (lambda lines: [changed(lines[0], start={"$": "cut.Cut", "x": 1}), *lines[1:]], "no field"),
        (lambda lines: [changed(lines[0], start=7), *lines[1:]], "how the group begins"),
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: [*lines[:3], lines[3][:-20]], "cut short"),
        (lambda lines: [*lines[:3], *lines[4:]], "missing"),
        (lambda lines: [*lines[:-1], changed(lines[-1], inputs=1)], "missing"),
        (lambda lines: [*lines, lines[-1]], "behind the end"),
        (lambda lines: [*lines[:3], b"{}\n", *lines[3:]], "no input"),
        (lambda lines: [*lines[:3], b"nonsense\n", *lines[3:]], "no JSON"),
        (lambda lines: [*lines[:3], b"[" * 100_000 + b"\n", *lines[3:]], "line 4"),
    ],
)
def test_it_is_told(lines: list[bytes], spoil: Spoil, word: str) -> None:
    with pytest.raises(BadRecording) as raised:
        compare(read(spoil(lines)))
    assert word in str(raised.value)
    assert "\n" not in str(raised.value)


def test_one_of_another_version_is_played_if_that_is_asked_for(lines: list[bytes]) -> None:
    other = [changed(lines[0], groupd="9.9.9"), *lines[1:]]
    with pytest.raises(BadRecording, match=__version__):
        read(other)
    assert compare(read(other, any_version=True)).different is None


def test_whatever_is_in_a_line_it_is_told_or_differs(lines: list[bytes]) -> None:
    """Bytes that were changed at random end in a sentence, in a difference, or do not matter."""
    chance = random.Random(7)
    ends = set[str]()
    for _ in range(150):
        place = chance.randrange(len(lines))
        line = bytearray(lines[place])
        for _ in range(chance.randint(1, 3)):
            line[chance.randrange(len(line) - 1)] = chance.choice(b'0129{}[]":,$abn')
        try:
            comparison = compare(read([*lines[:place], bytes(line), *lines[place + 1 :]]))
            ends.add("same" if comparison.different is None else "other")
        except BadRecording:
            ends.add("bad")
    assert ends >= {"bad", "other"}
