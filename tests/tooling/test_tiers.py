"""The two tiers of tests."""

import re
import subprocess
import sys

import pytest

from tests.tiers import EXTENDED, REPRESENTATIVES, is_extended
from tests.tooling.test_tidy import ROOT


def has_tests(row: str) -> bool:
    """Whether a row of `tests/tiers.py` is the beginning of the node id of a test."""
    path, _, name = row.partition("::")
    files = [ROOT / path] if path.endswith(".py") else list((ROOT / path).rglob("test_*.py"))
    function, _, parameters = name.partition("[")
    definition = re.compile(rf"^(?:async )?def {function or 'test_'}", re.MULTILINE)
    if not any(file.is_file() and definition.search(file.read_text()) for file in files):
        return False
    return not parameters or any(node_id.startswith(row) for node_id in collect(path))


def collect(path: str) -> list[str]:
    """The node ids of the tests of a file."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.timeout(600)  # it collects tests in processes of their own
def test_every_row_has_tests() -> None:
    assert [row for row in (*EXTENDED, *REPRESENTATIVES) if not has_tests(row)] == []


@pytest.mark.parametrize(
    "row",
    [
        "tests/nowhere/",
        "tests/test_nowhere.py",
        "tests/tooling/test_tiers.py::test_nothing",
        "tests/tooling/test_tiers.py::test_a_row_without_tests_is_seen[nothing]",
    ],
)
def test_a_row_without_tests_is_seen(row: str) -> None:
    assert not has_tests(row)


def test_representatives_are_tests_that_would_be_extended() -> None:
    assert [row for row in REPRESENTATIVES if not row.startswith((*EXTENDED, "tests/pipeline/"))] == []


@pytest.mark.parametrize(
    ("node_id", "fixtures", "extended"),
    [
        ("tests/group/classic/test_join.py::test_a", (), False),
        ("tests/interop/test_restart.py::test_a[java]", (), True),
        ("tests/pipeline/gold/test_lag.py::test_a", ("spark",), True),
        ("tests/tools/test_consumer_groups.py::test_a", (), False),
    ],
)
def test_a_test_is_in_one_tier(node_id: str, fixtures: tuple[str, ...], extended: bool) -> None:
    assert is_extended(node_id, fixtures) is extended
