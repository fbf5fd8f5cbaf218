"""The core gives the output of every transcript."""

from pathlib import Path

import pytest

from tests.scenarios.runner import run

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert run(lines) == lines


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_is_a_story_that_fits_a_screen(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert len(lines) <= 80
    assert any(line.startswith("  ") for line in lines)


def test_there_are_enough_of_them() -> None:
    assert len(TRANSCRIPTS) >= 25


def test_a_wrong_expectation_is_seen() -> None:
    story = ["# t", "> fetch A orders:0", "  A <- OffsetFetch groups=[{group_id=g topics=[orders:0=7]}]"]
    assert run(story) == [*story[:2], story[2].replace("=7", "=-1")]
