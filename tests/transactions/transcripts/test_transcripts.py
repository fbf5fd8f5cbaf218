"""The transaction core gives the output of every transcript."""

from pathlib import Path

import pytest

from tests.transactions.transcripts.runner import run

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert run(lines) == lines
    assert lines[0].startswith("# ")
    assert len(lines) <= 80


def test_there_are_some() -> None:
    assert len(TRANSCRIPTS) >= 8


def test_a_wrong_expectation_is_seen() -> None:
    lines = next(iter(TRANSCRIPTS)).read_text(encoding="utf-8").splitlines()
    output = next(number for number, line in enumerate(lines) if line.startswith("  "))
    wrong = [*lines[:output], lines[output] + "x", *lines[output + 1 :]]
    assert run(wrong) == lines
