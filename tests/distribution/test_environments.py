"""groupd in the environment of a project with packages of the same names. Neither sees those of the other."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import groupd
from coordinator.cli.main import SUBCOMMANDS
from coordinator.control.recording.recorded_classes import RECORDED_CLASSES
from coordinator.http.api.openapi import create_openapi
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from pipeline.cli import cli
from tests.distribution.environment import PAIRS, REPOSITORY, Environment, make_project
from tests.distribution.relocated import relocated_root
from tests.golden.recording import GROUPS, file_name
from tests.golden.versions import VERSIONS, golden_path

HELP_OF_ALL_COMMANDS = """
from contextlib import suppress
from click import Context, Group
from groupd.coordinator.cli.main import groupd
from groupd.pipeline.cli import cli
def print_help(program, command, path):
    with suppress(SystemExit):
        program([*path, "--help"])
    if isinstance(command, Group):
        context = Context(command)
        for name in command.list_commands(context):
            print_help(program, command.get_command(context, name), [*path, name])
for program in groupd, cli:
    print_help(program, program, [])
"""
IMPORTED_MODULES = """
import sys
import typing
before = set(sys.modules)
import groupd
assert groupd.__version__
print(*sorted(set(sys.modules) - before))
"""
NAMES_ON_THE_WIRE = """
import json
from groupd.coordinator.control.recording.recorded_classes import RECORDED_CLASSES
from groupd.coordinator.http.api.openapi import create_openapi
from groupd.coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
print(json.dumps([create_openapi(ALL_ROUTES, ALL_STREAMS), sorted(RECORDED_CLASSES)]))
"""
DATA_FILES = """
from groupd.coordinator.http.index_page import read_page_files
from groupd.pipeline.source import register
print(*read_page_files())
"""
NOTHING_ELSE = """
from importlib.util import find_spec
import groupd
names = ("coordinator", "pipeline", "protocol", "storage", "tests", "benchmarks", "docs", "hatch_build")
assert not [name for name in names if find_spec(name)]
print(groupd.__version__)
"""


@pytest.fixture(scope="module", params=["installed", "editable"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    root = relocated_root() if request.param == "installed" else REPOSITORY / "distribution"
    return Environment(tmp_path_factory.mktemp(request.param) / "environment", root)


def test_it_adds_one_import_name(environment: Environment) -> None:
    assert environment.run(environment.python, "-c", NOTHING_ELSE).strip() == groupd.__version__


def test_importing_groupd_loads_nothing_else(environment: Environment) -> None:
    loaded = set(environment.run(environment.python, "-c", IMPORTED_MODULES).split())
    own = {name for name in loaded if name.partition(".")[0] == "groupd"}
    assert own <= {"groupd", "groupd.checkout", "groupd.relocation"}
    assert {name.partition(".")[0] for name in loaded - own} <= sys.stdlib_module_names
    if "groupd.checkout" not in own:  # an editable installation parses the sources
        assert loaded == {"groupd"}


# `test_wheels.py` has all pairs.
@pytest.mark.parametrize(("shape", "place"), PAIRS)
def test_each_side_imports_its_own_modules(
    environment: Environment, shape: str, place: str, tmp_path: Path
) -> None:
    with make_project(tmp_path / "project", shape, environment, place) as project:
        project.check_imports()


def test_names_on_the_wire_are_those_of_the_repository(environment: Environment) -> None:
    shown = environment.run(environment.python, "-c", NAMES_ON_THE_WIRE)
    ours = [create_openapi(ALL_ROUTES, ALL_STREAMS), sorted(RECORDED_CLASSES)]
    assert json.loads(shown) == json.loads(json.dumps(ours))


@pytest.mark.parametrize("group_id", GROUPS)
def test_a_recording_is_replayed_under_any_module_name(environment: Environment, group_id: str) -> None:
    path = golden_path(VERSIONS[-1], file_name(group_id))
    environment.run(environment.python, "-m", "groupd", "replay", path, "--any-version")


def test_an_archive_can_be_imported(tmp_path: Path) -> None:
    """Spark ships archives to its workers."""
    archive = shutil.make_archive(str(tmp_path / "groupd"), "zip", relocated_root())
    environment = Environment(tmp_path / "environment", Path(archive))
    environment.run(environment.python, "-m", "groupd", "version")
    assert "index.html" in environment.run(environment.python, "-c", DATA_FILES).split()


def test_every_command_has_its_help_beside_such_a_project(environment: Environment, tmp_path: Path) -> None:
    with make_project(tmp_path / "project", "package", environment) as project:
        shown = project.run(environment.python, "-c", HELP_OF_ALL_COMMANDS)
    assert shown.count("Usage: ") > len(SUBCOMMANDS) + len(cli.commands)


def test_the_daemon_starts_beside_such_a_project(environment: Environment, tmp_path: Path) -> None:
    place = make_project(tmp_path / "project", "package", environment, "current directory")
    with place as project, environment.serve(tmp_path / "data", cwd=project.directory) as (url, _):
        project.run(environment.python, "-m", "groupd", "groups", "list", "--url", url)


@pytest.mark.parametrize("names", ["coordinator, groupd.coordinator", "groupd.coordinator, coordinator"])
def test_a_process_has_a_module_of_the_checkout_under_one_name(names: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment", REPOSITORY / "distribution", REPOSITORY)
    with pytest.raises(AssertionError, match="use one of these names in a process"):
        environment.run(environment.python, "-c", f"import {names}")


def test_an_editable_installation_runs_what_the_checkout_says_now(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("distribution", "protocol"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = Environment(tmp_path / "environment", checkout / "distribution")
    module = checkout / "protocol" / "framing.py"
    before = module.read_text()
    assert "from protocol" in before

    def added() -> str:
        ask = "from groupd.protocol import framing; print(getattr(framing, 'ADDED', None))"
        return environment.run(environment.python, "-c", ask, PYTHONDONTWRITEBYTECODE="").strip()

    assert added() == "None"
    (cached,) = checkout.glob("protocol/__pycache__/framing.*")
    compiled_at = cached.stat().st_mtime_ns
    assert added() == "None"
    assert cached.stat().st_mtime_ns == compiled_at
    module.write_text(f"{before}\nADDED = 1\n")
    assert added() == "1"
