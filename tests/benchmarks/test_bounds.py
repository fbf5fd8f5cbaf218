"""`make bench` fails on a figure outside its bounds: invented figures and bounds, and the committed file."""

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.__main__ import FIGURES, FULL, QUICK
from benchmarks.bounds import BadBounds, Bound, Judged, Verdict, judge, read_bounds, table
from benchmarks.report import Report

KNOWN = {"commit": ("to Kafka", "bytes", "seconds")}
TEXT = """
[commit."to Kafka"]
peer = "Kafka"
at_least = 0.5
at_most = 2
why = "it was so"

[commit."bytes"]
unit = "bytes"
at_most = 100
why = "it was so"

[commit."seconds"]
unit = "s"
at_most = 1
why = "it was so"
"""
QUIET, STOLEN = 0.01, 0.30
GOOD = {"to Kafka": 1.0, "bytes": 80.0, "seconds": 0.5}


@pytest.fixture
def bounds(tmp_path: Path) -> list[Bound]:
    return read_bounds(KNOWN, written(tmp_path, TEXT))


def written(directory: Path, text: str) -> Path:
    path = directory / "bounds.toml"
    path.write_text(text)
    return path


def verdicts(judged: list[Judged]) -> dict[str, Verdict]:
    return {one.bound.figure: one.verdict for one in judged}


def fails(judged: list[Judged]) -> bool:
    return any(one.verdict.is_failure for one in judged)


def test_figures_inside_their_bounds_pass(bounds: list[Bound]) -> None:
    judged = judge(bounds, GOOD, [], QUIET)
    assert set(verdicts(judged).values()) == {Verdict.INSIDE}
    assert not fails(judged)
    assert table(judged) == ["3 of 3 figures are inside their bounds (benchmarks/bounds.toml)"]


@pytest.mark.parametrize("figure", [("to Kafka", 0.5), ("to Kafka", 2.0), ("bytes", 100.0)])
def test_a_bound_itself_is_inside(bounds: list[Bound], figure: tuple[str, float]) -> None:
    assert not fails(judge(bounds, GOOD | dict([figure]), [], QUIET))


@pytest.mark.parametrize(
    "figure", [("to Kafka", 0.49), ("to Kafka", 2.01), ("bytes", 101.0), ("seconds", 1.1)]
)
def test_a_figure_outside_fails_and_is_told(bounds: list[Bound], figure: tuple[str, float]) -> None:
    name, value = figure
    judged = judge(bounds, GOOD | {name: value}, [], QUIET)
    assert verdicts(judged)[name] is Verdict.OUTSIDE
    assert fails(judged)
    first, last = table(judged)
    assert all(word in first for word in ("OUTSIDE", name, f"{value:g}", "it was so"))
    assert last.startswith("2 of 3")


def test_a_figure_that_nobody_measured_fails(bounds: list[Bound]) -> None:
    judged = judge(bounds, {"bytes": 80.0, "seconds": 0.5}, [], QUIET)
    assert verdicts(judged)["to Kafka"] is Verdict.MISSING
    assert fails(judged)


def test_a_figure_without_its_peer_is_told_and_does_not_fail(bounds: list[Bound]) -> None:
    judged = judge(bounds, {"bytes": 80.0, "seconds": 0.5}, ["to Kafka"], QUIET)
    assert verdicts(judged)["to Kafka"] is Verdict.NO_PEER
    assert not fails(judged)
    assert "to Kafka" in table(judged)[0]


def test_a_figure_of_another_python_is_named_and_does_not_fail(bounds: list[Bound]) -> None:
    judged = judge(bounds, {"to Kafka": 1.0, "seconds": 0.5}, ["bytes"], QUIET)
    assert verdicts(judged)["bytes"] is Verdict.OTHER_PYTHON
    assert not fails(judged)
    assert "bytes" in table(judged)[0]


def test_stolen_time_takes_the_word_from_times_and_from_nothing_else(bounds: list[Bound]) -> None:
    judged = judge(bounds, {"to Kafka": 0.1, "bytes": 200.0, "seconds": 9.0}, [], STOLEN)
    assert verdicts(judged) == {
        "to Kafka": Verdict.OUTSIDE,
        "bytes": Verdict.OUTSIDE,
        "seconds": Verdict.STOLEN,
    }
    lines = table(judged)
    assert all("30% of the processors' time was stolen" in line for line in lines[:-1])
    assert not fails(judge(bounds, GOOD | {"seconds": 9.0}, [], STOLEN))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[commit."to Kafkaa"]\npeer = "Kafka"\nat_least = 1\nwhy = "so"',
            "nothing measures commit: to Kafkaa",
        ),
        ('[comit."to Kafka"]\npeer = "Kafka"\nat_least = 1\nwhy = "so"', "nothing measures comit"),
        ('[commit."to Kafka"]\npeer = "Kafka"\nwhy = "so"', "neither at_least nor at_most"),
        ('[commit."to Kafka"]\npeer = "Kafka"\nat_least = 1', "does not say why"),
        ('[commit."to Kafka"]\nat_least = 1\nwhy = "so"', "either a peer or a unit"),
        ('[commit."to Kafka"]\npeer = "Kafka"\nat_lest = 1\nwhy = "so"', "takes at_least"),
        ("[commit]\nbytes = 7", "takes at_least"),
        ("commit = 7", "no table"),
        ("[commit", "bounds.toml"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadBounds, match=told):
        read_bounds(KNOWN, written(tmp_path, text))


def test_the_bounds_that_are_kept_can_be_read_and_leave_no_figure_out() -> None:
    bounds = read_bounds(FIGURES)
    bound = {(bound.benchmark, bound.figure) for bound in bounds}
    assert bound == {(name, figure) for name, figures in FIGURES.items() for figure in figures}
    assert FIGURES.keys() == FULL.keys() == QUICK.keys()


@pytest.mark.parametrize(("ratio", "code"), [(1.4, 0), (99.0, 1)])
def test_the_command_ends_with_1_when_a_figure_is_outside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ratio: float, code: int
) -> None:
    async def measure() -> Report:
        return Report("A health check", "made up", ["what"], figures={"groupd-health": ratio})

    monkeypatch.setitem(command.FULL, "health", measure)
    monkeypatch.setattr(command, "write_result", lambda report, neighbours, judged: None)
    monkeypatch.setattr("sys.argv", ["benchmarks", "health"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert int(ended.value.code or 0) == code
    assert ("OUTSIDE: health: groupd-health: 99" in capsys.readouterr().out) == bool(code)
