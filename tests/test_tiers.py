"""The two tiers of tests."""

import subprocess
import sys

import pytest

from tests.test_tidy import ROOT
from tests.tiers import EXTENDED, REPRESENTATIVES, is_extended


@pytest.fixture(scope="module")
def node_ids() -> list[str]:
    """The node ids of the tests that the rows of `tests/tiers.py` are about."""
    paths = sorted({row.split("::")[0] for row in (*EXTENDED, *REPRESENTATIVES)})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_row_has_tests(node_ids: list[str]) -> None:
    rows = [*EXTENDED, *REPRESENTATIVES]
    assert [row for row in rows if not any(node_id.startswith(row) for node_id in node_ids)] == []


def test_representatives_are_tests_that_would_be_extended() -> None:
    assert [row for row in REPRESENTATIVES if not row.startswith((*EXTENDED, "tests/pipeline/"))] == []


@pytest.mark.parametrize(
    ("node_id", "fixtures", "extended"),
    [
        ("tests/group/test_join.py::test_a", (), False),
        ("tests/interop/test_restart.py::test_a[java]", (), True),
        ("tests/pipeline/gold/test_lag.py::test_a", ("spark",), True),
        ("tests/pipeline/test_build.py::test_a", ("spark",), False),
    ],
)
def test_a_test_is_in_one_tier(node_id: str, fixtures: tuple[str, ...], extended: bool) -> None:
    assert is_extended(node_id, fixtures) is extended
