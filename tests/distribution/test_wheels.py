"""The real builds: wheels and editable installations by pip, the plugin, and the pipeline on a Spark cluster."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import groupd
from pipeline.warehouse import Warehouse
from storage.optional_dependencies import EXTRAS
from tests.distribution.environment import (
    PAIRS,
    PLACES,
    REPOSITORY,
    SHAPES,
    Environment,
    Project,
    make_project,
    write_project,
)
from tests.interop.requirement import lacking
from tests.pipeline.class_archive import quick_jvm
from tests.pipeline.cluster import LocalCluster
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.silver_tables import expected_tables, tables
from tests.pipeline.test_command import long_log, need_java
from tests.pipeline.test_decode import plain

pytestmark = pytest.mark.timeout(900)

SPARK_S = 600.0
BUILD_S = 300.0
CLIENTS = ("clients/groupd_client", "clients/pytest_groupd")
OWN_SESSION = """
import sys
import check_own
from groupd.pipeline.source import register
from own_function import owners
from pyspark.sql import SparkSession

spark = SparkSession.builder.master(sys.argv[1]).getOrCreate()
register(spark)
records = spark.read.format("consumer_offsets").load(sys.argv[2])
print(records.select("log_offset").mapInArrow(owners, "owner string").distinct().collect())
"""
OWN_FUNCTION = """
import pyarrow

def owners(batches):
    import pipeline.own
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"owner": [pipeline.own.OWNER] * batch.num_rows})
"""


def build_wheel(destination: Path, source: Path = REPOSITORY) -> Path:
    """Builds the wheel of the repository or of a source distribution. Returns its path."""
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        *options,
        "--wheel-dir",
        str(destination),
        str(source),
    ]
    subprocess.run(command, check=True, timeout=BUILD_S)
    (wheel,) = destination.glob("groupd-*.whl")
    return wheel


def build_source_distribution(destination: Path) -> Path:
    """Builds the source distribution of the repository. Returns its path."""
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "sdist",
        "--directory",
        str(destination),
    ]
    subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True, timeout=BUILD_S)
    (archive,) = destination.glob("groupd-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        lacking("hatchling, which builds the wheel, is not installed")
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=["wheel", "editable"])
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path
) -> Environment:
    made = Environment(tmp_path_factory.mktemp("installed") / "environment")
    made.install(*((str(wheel),) if request.param == "wheel" else ("--editable", str(REPOSITORY))))
    made.install(*(str(REPOSITORY / name) for name in CLIENTS))
    return made


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"groupd", f"groupd-{groupd.__version__}.dist-info"}
    assert not {"groupd/checkout.py", "groupd/relocation.py"} & set(names)


def test_a_source_distribution_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = build_wheel(tmp_path, build_source_distribution(tmp_path))
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    ("dockerfile", "packages"),
    [
        ("docker/Dockerfile", {"coordinator", "protocol", "storage"}),
        ("docker/pipeline/Dockerfile", {"coordinator", "pipeline", "protocol", "storage"}),
    ],
)
def test_an_image_is_built_from_what_its_dockerfile_copies(
    dockerfile: str, packages: set[str], tmp_path: Path
) -> None:
    build_stage = (REPOSITORY / dockerfile).read_text().partition(" install --no-cache-dir ")[0]
    (tmp_path / "context").mkdir()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", build_stage, re.MULTILINE):
        for source in sources.split():
            if source.endswith("/"):
                shutil.copytree(REPOSITORY / source, tmp_path / "context" / source)
            else:
                shutil.copy(REPOSITORY / source, tmp_path / "context" / source)
    names = ZipFile(build_wheel(tmp_path, tmp_path / "context")).namelist()
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == packages


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_side_imports_its_own_modules(
    environment: Environment, shape: str, place: str, tmp_path: Path
) -> None:
    with make_project(tmp_path / "project", shape, environment, place) as project:
        project.check_imports()


def test_the_commands_run_beside_such_a_project(environment: Environment, tmp_path: Path) -> None:
    with make_project(tmp_path / "project", "package", environment, "src layout") as project:
        for command in (
            ["groupd", "version"],
            ["groupd-pipeline", "--help"],
            ["groupd-kafka-tools", "kafka-topics", "--version"],
        ):
            program, *arguments = command
            project.run(environment.script(program), *arguments)
        project.run(environment.python, "-m", "groupd", "version")


@pytest.mark.parametrize(("shape", "place"), PAIRS)
def test_the_plugin_and_its_daemon_serve_such_a_project_under_xdist(
    environment: Environment, shape: str, place: str, tmp_path: Path
) -> None:
    with make_project(tmp_path / "project", shape, environment, place) as project:
        command = (environment.python, "-m", "pytest", "-p", "no:randomly", "-q", "-n", "2")
        assert "1 passed" in project.run(*command, str(project.sources))


def test_pip_needs_no_index_that_has_groupd_to_add_an_extra(environment: Environment) -> None:
    """The dependencies are there: pip looks for nothing but groupd."""
    named = f"groupd[{','.join(EXTRAS)}]"
    environment.run(environment.python, "-m", "pip", "install", "--no-index", named)


@pytest.fixture(scope="module")
def project_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a project of which Spark's workers know."""
    sources = tmp_path_factory.mktemp("project") / "project"
    write_project(sources, "package")
    (sources / "own_function.py").write_text(OWN_FUNCTION)
    return sources


@pytest.fixture(scope="module")
def cluster(project_sources: Path) -> Iterator[LocalCluster]:
    need_java()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(project_sources))
        patch.setenv("JAVA_TOOL_OPTIONS", quick_jvm())
        with LocalCluster(workers=2) as cluster:
            patch.undo()
            yield cluster


@pytest.fixture(scope="module")
def log_directory(tmp_path_factory: pytest.TempPathFactory) -> tuple[LogDirectory, dict[str, Any]]:
    """A directory of two logs, and the silver tables that they become."""
    made = LogDirectory(tmp_path_factory.mktemp("log") / "data")
    rows = []
    for number, log in enumerate((long_log(), long_log())):
        made.write_log(number, log, per_segment=10)
        rows += [row | {"log_partition": number} for row in plain(log.data)[0]]
    return made, expected_tables(rows)


@pytest.fixture
def spark_project(environment: Environment, project_sources: Path) -> Project:
    variables = {
        "PYTHONPATH": str(project_sources),
        "PYSPARK_PYTHON": environment.python,
        "JAVA_TOOL_OPTIONS": quick_jvm(),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return Project(environment, project_sources, project_sources, variables)


def check_warehouse(warehouse: Warehouse, expected: dict[str, Any]) -> None:
    """Check the tables of an ingest, and that both workers of the cluster wrote a file."""
    assert tables(warehouse) == expected
    assert len(list(Path(warehouse.path("commits")).glob("ingest_batch=1/*.parquet"))) == 2


def test_the_pipeline_runs_on_a_cluster_beside_such_a_project(
    spark_project: Project,
    cluster: LocalCluster,
    log_directory: tuple[LogDirectory, dict[str, Any]],
    tmp_path: Path,
) -> None:
    made, expected = log_directory
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    program = spark_project.environment.script("groupd-pipeline")
    arguments = ("--log-dir", f"file://{made.path}", "--warehouse", warehouse.root, "--master", cluster.url)
    spark_project.run(program, "ingest", *arguments, timeout_s=SPARK_S)
    check_warehouse(warehouse, expected)


def test_a_session_of_such_a_project_reads_the_log(
    spark_project: Project,
    cluster: LocalCluster,
    log_directory: tuple[LogDirectory, dict[str, Any]],
    tmp_path: Path,
) -> None:
    (tmp_path / "session.py").write_text(OWN_SESSION)
    arguments = (str(tmp_path / "session.py"), cluster.url, f"file://{log_directory[0].path}")
    shown = spark_project.run(spark_project.environment.python, *arguments, timeout_s=SPARK_S)
    assert shown.strip() == "[Row(owner='project')]"


def test_a_cluster_without_groupd_runs_the_pipeline_from_an_archive(
    wheel: Path, cluster: LocalCluster, log_directory: tuple[LogDirectory, dict[str, Any]], tmp_path: Path
) -> None:
    """As in docs/pipeline.md: the driver finds the archive by PYTHONPATH, and Spark sends it to the executors."""
    made, expected = log_directory
    archive = shutil.copy(wheel, tmp_path / "groupd.zip")
    environment = Environment(tmp_path / "environment")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    arguments = ("--log-dir", f"file://{made.path}", "--warehouse", warehouse.root, "--master", cluster.url)
    printed = environment.run(
        *(
            "sh",
            "-c",
            'exec "$@" 2>&1',
            "sh",
            environment.python,
            "-m",
            "groupd.pipeline",
            "ingest",
            *arguments,
        ),
        timeout_s=SPARK_S,
        PYTHONPATH=str(archive),
        PYSPARK_SUBMIT_ARGS=f"--py-files {archive} pyspark-shell",
        JAVA_TOOL_OPTIONS=quick_jvm(),
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert not re.search(r"\b(WARN|ERROR)\b", printed), (
        printed
    )  # the settings of log4j are in the archive, too
    check_warehouse(warehouse, expected)
