"""What the commands show of their work."""

import io
import sys
import webbrowser
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pipeline.build import Built
from pipeline.cli.report import announce_report
from pipeline.cli.shown import Shown
from pipeline.progress import Progress, Step
from pipeline.report.words import duration
from pipeline.session import driver_memory_mb


class Screen(io.StringIO):
    """A standard error stream that may be a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown_on(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    """Return the output for the progress of an ingest and a build."""
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with Shown() as shown:
        shown.ingested(Progress(3000, 250_000, 750_000, 2.0))
        shown.begins(Step(3, 12, "ownership"))
        shown.built(Built("ownership", 1234, 0.5))
    return screen.getvalue()


def test_a_terminal_has_a_bar_that_says_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "3 of 12 ownership" in shown_on(monkeypatch, is_terminal=True)


def test_what_is_no_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown_on(monkeypatch, is_terminal=False).splitlines()
    assert [line.split()[0] for line in lines] == ["3,000", "ownership:"]
    assert "about 6 s" in lines[0]


@pytest.mark.parametrize(("seconds", "text"), [(59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_lengths_of_time_have_the_units_that_matter(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_report_is_opened_only_when_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def browse(address: str) -> bool:
        opened.append(address)
        return len(opened) == 1

    monkeypatch.setattr(webbrowser, "open", browse)
    page = tmp_path / "a report.html"
    announce_report(str(page), is_opened=False)
    assert opened == []
    path, advice = capsys.readouterr()
    assert path == f"{page}\n"
    assert page.as_uri() in advice.splitlines()[-1]
    announce_report(str(page), is_opened=True)
    assert opened == [page.as_uri()]
    assert capsys.readouterr() == (f"{page}\n", "")
    announce_report(str(page), is_opened=True)
    assert "browser" in capsys.readouterr().err


@pytest.mark.parametrize(("gigabytes", "heap_mb"), [(2, 1024), (8, 2048), (64, 4096)])
def test_sparks_heap_leaves_most_of_the_memory_to_others(gigabytes: int, heap_mb: int) -> None:
    assert driver_memory_mb(gigabytes << 30) == heap_mb
