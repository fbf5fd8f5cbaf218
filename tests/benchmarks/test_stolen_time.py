"""The figures that a benchmark keeps of a run during which other machines used the processors; invented
counters."""

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import neighbours as counted
from benchmarks import report as written
from benchmarks.neighbours import Neighbours
from benchmarks.report import Absolute, Report

RATIO = "0.84 (0.75 to 1.01)"
TIMES = ("108k (82k to 114k)", "99%", "1.44")


def commits() -> Report:
    return Report(
        "Commits",
        "made up",
        ["server", "commits per CPU-second", "busy", "p50 ms", "to it", "bytes"],
        rows=[["groupd", *map(Absolute, TIMES), RATIO, "1391"]],
    )


def stat(idle: int, stolen: int) -> str:
    return f"cpu  100 0 50 {idle} 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n"


@pytest.fixture
def processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "stat"
    path.write_text(stat(1000, 500))
    monkeypatch.setattr(counted, "_STAT", path)
    return path


def test_only_what_was_stolen_since_the_beginning_counts(processors: Path) -> None:
    neighbours = Neighbours()
    assert neighbours.stolen == 0
    processors.write_text(stat(1090, 510))
    assert neighbours.stolen == pytest.approx(0.1)
    assert "10% of the processors' time was stolen" in str(neighbours)


@pytest.mark.parametrize("stolen", [0.0, 0.05])
def test_a_quiet_run_keeps_everything(stolen: float) -> None:
    text = commits().markdown(stolen)
    assert all(figure in text for figure in (*TIMES, RATIO, "1391"))
    assert "stolen" not in text


def test_a_run_that_was_stolen_from_keeps_ratios_and_sizes_and_says_so() -> None:
    text = commits().markdown(0.051)
    assert not any(figure in text for figure in TIMES)
    assert "| groupd | (stolen) | (stolen) | (stolen) | 0.84 (0.75 to 1.01) | 1391 |" in text
    assert "5% of the processors' time was stolen" in text
    assert "ratios of interleaved pairs" in text


def test_a_cell_that_was_empty_stays_empty() -> None:
    report = Report("Commits", "made up", ["server", "p50 ms"], rows=[["groupd", Absolute("")]])
    assert "| groupd |  |" in report.markdown(0.3)


@pytest.mark.parametrize(("stolen", "is_kept"), [(0, True), (40, False)])
def test_the_command_writes_what_counts(
    processors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stolen: int, is_kept: bool
) -> None:
    def measured() -> Report:
        processors.write_text(stat(1100 - stolen, 500 + stolen))
        report = commits()
        report.figures = {"groupd-health": 9.0}
        return report

    async def measure() -> Report:
        return measured()

    results = tmp_path / "RESULTS.md"
    monkeypatch.setattr(written, "RESULTS", results)
    monkeypatch.setitem(command.FULL, "health", measure)
    monkeypatch.setattr("sys.argv", ["benchmarks", "health"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    text = results.read_text()
    assert ended.value.code == 1
    assert (TIMES[0] in text) == is_kept
    assert RATIO in text
    assert f"{stolen}% of the processors' time was stolen" in text
    assert "- OUTSIDE: health: groupd-health: 9, at most 3" in text
