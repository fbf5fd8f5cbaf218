"""`.ci/run` repeats up to three failures of a tier, and is red only when one fails again."""

from pathlib import Path

import pytest

from tests.repeat_failures import MAX_REPEATED, main, read_failures

TESTS = """
def test_fails_each_time():
    assert False

def test_passes():
    pass
"""


@pytest.fixture
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "test_cases.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "failures"


def test_failures_that_pass_alone_are_forgiven(failures: Path, capfd: pytest.CaptureFixture[str]) -> None:
    failures.write_text("test_cases.py::test_passes@group\n")
    assert main(failures) == 0
    assert "UNSTABLE" in capfd.readouterr().out


def test_a_second_failure_counts(failures: Path) -> None:
    failures.write_text("test_cases.py::test_passes\ntest_cases.py::test_fails_each_time\n")
    assert main(failures) == 1


def test_many_failures_count(failures: Path) -> None:
    failures.write_text("".join(f"test_cases.py::test_passes[{n}]\n" for n in range(MAX_REPEATED + 1)))
    assert main(failures) == 1


@pytest.mark.parametrize("written", [True, False])
def test_a_run_without_failed_tests_failed_for_another_reason(failures: Path, written: bool) -> None:
    if written:
        failures.write_text("")
    assert main(failures) == 1


def test_identifiers_lose_the_group_of_xdist(failures: Path) -> None:
    failures.write_text("a.py::b[x@y]\na.py::b[x@y]@spark\na.py::c@a.py\n")
    assert read_failures(failures) == ["a.py::b[x@y]", "a.py::c"]
