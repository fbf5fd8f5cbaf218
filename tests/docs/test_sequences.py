"""docs/sequences.md: fresh, drawn from transcripts that exist, and in a form that Mermaid reads."""

import re
from collections.abc import Iterable

import pytest

from docs import generate_sequences
from docs.generate_sequences import CHAPTERS, Chapter, diagram
from docs.sequence_diagram import draw
from tests.scenarios.test_scenarios import TRANSCRIPTS

TEXT = r"(?:[^;#<]|#(?:35|59);|<br/>)+"
"""What Mermaid takes for text: no semicolon, no number sign but in their codes, no tag but a line break."""
STATEMENTS = {
    "participant": re.compile(rf"participant (\w+)(?: as {TEXT})?"),
    "note": re.compile(rf"Note over (\w+)(?:,(\w+))?: {TEXT}"),
    "arrow": re.compile(rf"(\w+)--?>>(\w+): {TEXT}"),
    "activate": re.compile(r"activate (\w+)"),
    "deactivate": re.compile(r"deactivate (\w+)"),
}


def problems(lines: Iterable[str]) -> list[str]:
    """What Mermaid would not read, or not draw as it is meant."""
    head, *body = lines
    found = [] if head == "sequenceDiagram" else [head]
    cast: set[str] = set()
    active: set[str] = set()
    for line in (line.strip() for line in body):
        kind, names = next(
            (
                (kind, {name for name in match.groups() if name})
                for kind, pattern in STATEMENTS.items()
                if (match := pattern.fullmatch(line))
            ),
            ("", set[str]()),
        )
        if not kind or (kind == "participant") == bool(names & cast):
            found.append(line)
        if kind == "participant":
            cast |= names
        elif not names <= cast:
            found.append(f"not introduced: {line}")
        if kind in ("activate", "deactivate"):
            if (kind == "activate") == bool(names & active):
                found.append(f"no bar to begin or end: {line}")
            active ^= names
    return [*found, *(f"never answered: {name}" for name in sorted(active))]


def test_the_page_is_fresh() -> None:
    assert generate_sequences.PAGE.read_text(encoding="utf-8") == generate_sequences.page()


def test_every_chapter_is_drawn_from_a_scenario_that_is_tested() -> None:
    assert {chapter.transcript for chapter in CHAPTERS} <= {path.stem for path in TRANSCRIPTS}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.transcript)
def test_mermaid_reads_the_diagram(chapter: Chapter) -> None:
    assert problems(diagram(chapter)) == []


@pytest.mark.parametrize(
    "line",
    [
        "participant A",
        "A->>X: Heartbeat",
        "A->>groupd: it waits; it is answered",
        "A->>groupd: number #1",
        "A->>groupd: <orders>",
        "A->>groupd:",
        "Note A: nothing",
        "deactivate A",
        "activate A",
    ],
)
def test_what_mermaid_does_not_read_is_seen(line: str) -> None:
    sound = ["sequenceDiagram", "participant A", "participant groupd", "A->>groupd: Heartbeat#59; ok"]
    assert problems(sound) == []
    assert problems([*sound, line]) != []


def test_a_bar_lasts_from_the_parked_request_to_its_answer() -> None:
    lines = [
        line.strip() for line in draw(["> given A=orders:0", "> join B v=3", "> heartbeat A", "> join A"])
    ]
    asked, answered = lines.index("activate B"), lines.index("deactivate B")
    assert lines[asked - 1].startswith("B->>groupd: JoinGroup v3")
    assert lines[answered - 1] == "groupd-->>B: JoinGroup: generation 2, A-1 leads"
    assert "groupd-->>A: Heartbeat: REBALANCE_IN_PROGRESS" in lines[asked:answered]
    assert "activate A" not in lines, "the last one to come is answered at once"


def test_who_waits_while_the_coordinator_restarts_waits_no_longer() -> None:
    lines = draw(["> given A=orders:0 B=orders:1", "> join A", "> crash", "> heartbeat A"])
    assert problems(lines) == []


def test_time_that_passes_is_told_before_what_happens_then() -> None:
    lines = [
        line.strip() for line in draw(["> given A=orders:0 session=6s", "> advance 7s", "> heartbeat A"])
    ]
    later = lines.index("Note over A,groupd: 6s later")
    assert "the HEARTBEAT timer of A-1 fires" in lines[later + 1]
    assert lines[later + 2] == "Note over A,groupd: 1s later"


def test_text_that_is_syntax_to_mermaid_is_only_text() -> None:
    lines = draw(["> given A=orders:0", "# first; then #2", "> leave A reason='bye; #1'"])
    assert problems(lines) == []
    assert any("first#59; then #35;2" in line for line in lines)
