"""Features without their extra: one line names the missing distributions and the command to install them."""

import shlex
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from pipeline.cli import cli
from storage.optional_dependencies import EXTRAS, OptionalDependencyError, require_extra
from tests.distribution.environment import REPOSITORY, Environment
from tests.distribution.relocated import relocated_root

DEVELOPMENT: Final = {"check", "release", "test"}
HELP_OF_PIPELINE: Final = """
from contextlib import suppress
from groupd.pipeline.cli import cli
for name in cli.commands:
    with suppress(SystemExit):
        cli([name, "--help"])
"""
CLUSTER: Final = ("-o", "cluster.etcd.endpoints=127.0.0.1:1")
ADVERTISED: Final = ("--listen", "127.0.0.1:0", "--http", "off", "--advertise", "127.0.0.1:9092")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with groupd and none of its extras."""
    modules = {module.partition(".")[0] for extra in EXTRAS.values() for module in extra.values()}
    return Environment(tmp_path_factory.mktemp("bare") / "environment", relocated_root(), without=modules)


def install_command(line: str, environment: Environment) -> list[str]:
    """The command that ends a line. Fails unless it installs into the environment."""
    command = shlex.split(line[line.index(environment.python) :])
    assert command[:-1] == [environment.python, "-m", "pip", "install"]
    return command


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_distribution_of_an_extra_is_checked(extra: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert set(declared) == set(EXTRAS) | DEVELOPMENT
    assert [requirement.partition(">")[0].partition("[")[0] for requirement in declared[extra]] == list(
        EXTRAS[extra]
    )


def test_the_pipeline_has_its_help_without_spark(environment: Environment) -> None:
    shown = environment.run(environment.python, "-c", HELP_OF_PIPELINE)
    assert shown.count("Usage: ") == len(cli.commands)
    environment.run(environment.python, "-m", "groupd.pipeline", "--help")


@pytest.mark.parametrize(
    "command", ["ingest --log-dir log", "build", "report", "run --log-dir log --out out.html"]
)
def test_the_pipeline_names_all_that_is_missing(command: str, environment: Environment) -> None:
    line = environment.run_refused(
        *(environment.python, "-m", "groupd.pipeline", *command.split(), "--warehouse", "warehouse")
    )
    assert [name for name in EXTRAS["pipeline"] if name not in line] == []
    assert install_command(line, environment)[-1] == "groupd[pipeline]"


def test_a_daemon_of_a_cluster_does_not_start(environment: Environment, tmp_path: Path) -> None:
    line = environment.run_refused(
        *(environment.python, "-m", "groupd", "serve", "--data-dir", str(tmp_path), *ADVERTISED, *CLUSTER),
        CLUSTER_ID="test",
    )
    assert "cluster.etcd.endpoints" in line
    assert "grpcio" in line
    assert install_command(line, environment)[-1] == "groupd[cluster]"


def test_a_directory_is_not_imported_into_a_cluster(environment: Environment, tmp_path: Path) -> None:
    line = environment.run_refused(
        *(environment.python, "-m", "groupd", "cluster", "import", "--data-dir", str(tmp_path), *CLUSTER)
    )
    assert install_command(line, environment)[-1] == "groupd[cluster]"


def test_a_daemon_warns_that_it_does_not_trace(environment: Environment, tmp_path: Path) -> None:
    """It starts: environments set these variables for all containers."""
    with environment.serve(tmp_path / "data", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1") as (url, log):
        environment.run(environment.python, "-m", "groupd", "groups", "list", "--url", url)
        (line,) = (line for line in log.read_text().splitlines() if "OTEL_EXPORTER_OTLP_ENDPOINT" in line)
    assert [name for name in EXTRAS["otel"] if name not in line] == []
    assert "'groupd[otel]'" in line


def test_a_damaged_extra_is_named_with_its_error() -> None:
    expected = pytest.raises(OptionalDependencyError, match=r"ssl\.keystore.*jks.*libjks\.so")
    with expected, require_extra("jks", "ssl.keystore"):
        raise ImportError("libjks.so: cannot open shared object file")


def test_a_defect_of_groupd_is_no_damaged_extra() -> None:
    with pytest.raises(ImportError, match="no such name"), require_extra("jks", "ssl.keystore"):
        raise ImportError("no such name", name="coordinator.daemon")


def test_without_pip_the_command_is_for_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setitem(sys.modules, "jks", None)
    command = r"uv pip install --python \S+ 'groupd\[jks\]'$"
    with pytest.raises(OptionalDependencyError, match=command), require_extra("jks", "ssl.keystore"):
        raise AssertionError("the body does not run")
