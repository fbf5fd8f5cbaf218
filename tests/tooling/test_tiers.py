"""The three tiers of tests."""

import functools
import re
import subprocess
import sys
from collections.abc import Iterable
from signal import Signals

import pytest

from tests.interop import test_assignors, test_producers, test_restart
from tests.interop.driver import Driver
from tests.interop.matrix.cells import CELLS, CERTIFICATES, SECURED, Cell
from tests.interop.matrix.column import CLIENTS, Client
from tests.interop.secured_broker import MECHANISMS
from tests.tiers import (
    EXTENDED,
    EXTENDED_FIXTURES,
    FIXTURE_FOLDERS,
    NIGHTLY,
    REPRESENTATIVES,
    is_extended,
    is_nightly,
    may_have_extended_tests,
)
from tests.tooling.test_tidy import ROOT

MATRIX = "tests/interop/matrix/test_matrix.py"


def has_tests(row: str, node_ids: Iterable[str]) -> bool:
    """Return whether a row of `tests/tiers.py` is the beginning of the node id of a test.

    Args:
        row: the path of a file or folder, with or without a function and its parameters.
        node_ids: the tests of the file, if the row has parameters.
    """
    path, _, name = row.partition("::")
    files = [ROOT / path] if path.endswith(".py") else list((ROOT / path).rglob("test_*.py"))
    function, _, parameters = name.partition("[")
    definition = re.compile(rf"^(?:async )?def {function or 'test_'}", re.MULTILINE)
    if not any(file.is_file() and definition.search(file.read_text()) for file in files):
        return False
    return not parameters or any(node_id.startswith(row) for node_id in node_ids)


@functools.cache
def collect(*paths: str) -> list[str]:
    """Return the node ids of the tests of some files, collected in a process of their own."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def node_ids() -> list[str]:
    """The tests of all files that rows with parameters name."""
    rows = [row for row in (*EXTENDED, *REPRESENTATIVES) if "[" in row] + list(NIGHTLY)
    return collect(*sorted({row.partition("::")[0] for row in rows}))


@pytest.mark.timeout(600)  # collects tests in another process
def test_every_row_has_tests(node_ids: list[str]) -> None:
    assert [row for row in (*EXTENDED, *REPRESENTATIVES) if not has_tests(row, node_ids)] == []


@pytest.mark.timeout(600)
def test_every_row_of_the_nightly_tier_has_its_members(node_ids: list[str]) -> None:
    for beginning, members in NIGHTLY.items():
        ids = {each.partition("[")[2][:-1] for each in node_ids if each.startswith(beginning)}
        assert set(members) < ids or (not members and ids), beginning


@pytest.mark.timeout(600)
def test_a_nightly_test_is_an_extended_one(node_ids: list[str]) -> None:
    nightly = [each for each in node_ids if is_nightly(each)]
    assert nightly
    fixtures = {each: EXTENDED_FIXTURES if each.startswith(FIXTURE_FOLDERS) else () for each in nightly}
    assert [each for each in nightly if not is_extended(each, fixtures[each])] == []


def test_only_the_listed_folders_use_the_fixtures_of_extended_tests() -> None:
    used = re.compile(rf"^(?:async )?def .*\b({'|'.join(EXTENDED_FIXTURES)})\b", re.MULTILINE)
    users = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "tests").rglob("*.py")
        if used.search(file.read_text())
    }
    assert users
    assert [path for path in sorted(users) if not path.startswith(FIXTURE_FOLDERS)] == []


def test_a_run_of_extended_tests_leaves_out_files_without_any() -> None:
    kept, left_out = "tests/crash/test_kill.py", "tests/crash/test_topics.py"
    assert may_have_extended_tests("tests/pipeline/gold/test_lag.py")
    assert (may_have_extended_tests(kept), may_have_extended_tests(left_out)) == (True, False)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-v", "-m", "extended", kept, left_out]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert kept.rpartition("/")[2] in done.stdout
    assert left_out.rpartition("/")[2] not in done.stdout.partition("collected")[2]


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
    path = row.partition("::")[0]
    assert not has_tests(row, collect(path) if "[" in row else [])


def test_representatives_are_tests_that_would_be_extended() -> None:
    assert [row for row in REPRESENTATIVES if not row.startswith((*EXTENDED, "tests/pipeline/"))] == []


@pytest.mark.parametrize(
    ("node_id", "fixtures", "extended", "nightly"),
    [
        ("tests/group/classic/test_join.py::test_a", (), False, False),
        ("tests/interop/test_restart.py::test_a[java-SIGTERM]", (), True, False),
        ("tests/interop/test_restart.py::test_a[java-SIGKILL]", (), True, True),
        ("tests/interop/test_producers.py::test_transactional_producer[java]", (), True, True),
        ("tests/pipeline/gold/test_lag.py::test_a", ("spark",), True, False),
        ("tests/tools/test_consumer_groups.py::test_a", (), False, False),
    ],
)
def test_a_test_is_in_one_tier(
    node_id: str, fixtures: tuple[str, ...], extended: bool, nightly: bool
) -> None:
    assert (is_extended(node_id, fixtures), is_nightly(node_id)) == (extended, nightly)


def extended_cells(client: Client) -> list[Cell]:
    """Return the logins of a client in the extended tier."""
    return [cell for cell in client.cells if not is_nightly(f"{MATRIX}::test_a[{client}-{cell}]")]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_each_client_has_each_kind_of_login_in_the_extended_tier(client: Client) -> None:
    cells = extended_cells(client)
    accepted = [cell for cell in cells if cell.visit == "work"]
    assert {cell.settings.get("mechanism") for cell in accepted} >= {None, *MECHANISMS}
    assert {cell.settings["protocol"] for cell in accepted} >= {"SSL", *SECURED}
    refusals = {cell.refusal.rpartition(" ")[2] for cell in cells}
    assert refusals == {"", "credentials", "mechanism", "certificate"}
    assert "stay" in {cell.visit for cell in cells}


def test_each_login_is_in_the_extended_tier() -> None:
    cells = [cell.name for client in CLIENTS for cell in extended_cells(client)]
    assert set(cells) >= {cell.name for cell in CELLS}
    assert all(cells.count(f"SSL {certificate}") == 2 for certificate in CERTIFICATES)


@pytest.mark.parametrize(
    ("test", "cases"),
    [
        ("test_assignors.py::test_assignor_shares_and_gives_back", test_assignors.CASES),
        ("test_producers.py::test_produced_records_are_read_back", test_producers.CASES),
        ("test_restart.py::test_members_survive_a_restart_of_the_broker", test_restart.CASES),
    ],
    ids=["assignors", "codecs", "restarts"],
)
def test_each_client_and_each_option_is_in_the_extended_tier(
    test: str, cases: list[tuple[Driver, str | Signals]]
) -> None:
    named = [(driver, option if isinstance(option, str) else option.name) for driver, option in cases]
    kept = [case for case in named if not is_nightly(f"tests/interop/{test}[{case[0]}-{case[1]}]")]
    assert {driver.name for driver, _ in kept} == {driver.name for driver, _ in named}
    assert {option for _, option in kept} == {option for _, option in named}
