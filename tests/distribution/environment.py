"""Environments with groupd in them, and projects that have packages of the names that groupd uses inside."""

import os
import subprocess
import sys
import venv
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupd.relocation import PACKAGES

REPOSITORY: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = 120.0
SHAPES: Final = ("package", "module", "namespace package")
"""What `import storage` may find in a project."""
PLACES: Final = ("PYTHONPATH with -P", "current directory", "src layout")
"""Where Python finds the project. `src` is on the path of all processes, as after `pip install --editable`."""
PAIRS: Final = tuple(zip(SHAPES, PLACES, strict=True))
"""Each shape and each place once."""
_IMPORT_ALL: Final = """
import sys
print("coordinator" in sys.modules)
before = set(sys.modules)
import groupd
assert not [name for name in sys.modules if name.startswith("groupd.coordinator")]
import groupd.coordinator.daemon, groupd.coordinator.control.control_plane, groupd.pipeline.cli
added = {name.partition(".")[0] for name in set(sys.modules) - before}
assert not added & {"coordinator", "pipeline", "protocol", "storage"}, added
import check_own
"""


class Environment:
    """A virtual environment of this Python with the dependencies of the tests, but without the repository."""

    def __init__(self, directory: Path, *search_path: Path, without: Collection[str] = ()) -> None:
        """Create the environment in an empty directory.

        `search_path` are directories with further packages. `without` are files and folders of site-packages to
        omit, such as `grpc`.
        """
        venv.create(directory, symlinks=True)
        self.directory = directory
        self.python = str(directory / "bin" / "python")
        self.site_packages = next(directory.glob("lib/python3.*/site-packages"))
        dependencies = [Path(path) for path in sys.path if path.endswith("site-packages")]
        if without:
            dependencies = [_link_dependencies(dependencies, directory / "dependencies", without)]
        (self.site_packages / "dependencies.pth").write_text(
            "\n".join(map(str, (*search_path, *dependencies)))
        )

    def install(self, *arguments: str) -> None:
        """Installs with pip, without an index. Raises CalledProcessError."""
        options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-warn-script-location")
        self.run(self.python, "-m", "pip", "install", *options, *arguments)

    def script(self, name: str) -> str:
        """The path of a command that was installed."""
        return str(self.directory / "bin" / name)

    def run(
        self, *command: str, cwd: Path | None = None, timeout_s: float = TIMEOUT_S, **environment: str
    ) -> str:
        """Run a command and return its standard output. Raises AssertionError unless it exits with 0."""
        done = self._run(command, cwd, timeout_s, environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_refused(self, *command: str, **environment: str) -> str:
        """Run a command that exits with 2 and prints one line, to standard error. Returns the line."""
        done = self._run(command, None, TIMEOUT_S, environment)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        return line

    @contextmanager
    def serve(
        self, data: Path, *program: str, cwd: Path | None = None, **environment: str
    ) -> Iterator[tuple[str, Path]]:
        """Run a daemon while the context lasts, and yield its URL and its log. It must become ready and end
        cleanly.

        `data` is its data directory; `program` is the command, by default `python -m groupd`.
        """
        log = data.with_suffix(".log")
        command = (*(program or (self.python, "-m", "groupd")), "serve", "--profile", "test")
        listeners = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        with (
            log.open("w") as stderr,
            subprocess.Popen(
                [*command, *listeners, "--data-dir", str(data)],
                cwd=cwd or self.directory,
                env=clean_variables() | environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            ) as daemon,
        ):
            try:
                assert daemon.stdout is not None
                ready = daemon.stdout.readline()
                assert ready.startswith("groupd ready "), log.read_text()
                yield f"http://{ready.partition('http=')[2].split()[0]}", log
            finally:
                daemon.terminate()
                daemon.wait(TIMEOUT_S)
        assert daemon.returncode == 0, log.read_text()

    def _run(
        self, command: Sequence[str], cwd: Path | None, timeout_s: float, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd or self.directory,
            env=clean_variables() | environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def clean_variables() -> dict[str, str]:
    """The environment variables of the tests, without Python's search path and OpenTelemetry's settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONSAFEPATH") and not name.startswith("OTEL_")
    }


def _link_dependencies(folders: Sequence[Path], destination: Path, without: Collection[str]) -> Path:
    """Fill a folder with links to all that other folders hold, except `without` and path files."""
    destination.mkdir()
    for entry in (entry for folder in folders for entry in folder.iterdir()):
        link = destination / entry.name
        if entry.name not in without and entry.suffix != ".pth" and not link.exists():
            link.symlink_to(entry)
    return destination


@dataclass(frozen=True)
class Project:
    """A project with packages of its own, and the environment that runs it."""

    environment: Environment
    directory: Path
    """Where its commands run."""
    sources: Path
    variables: dict[str, str]
    """Environment variables of its commands."""

    def run(self, *command: str, timeout_s: float = TIMEOUT_S, **variables: str) -> str:
        """Run a command of the project as `Environment.run` does."""
        return self.environment.run(
            *command, cwd=self.directory, timeout_s=timeout_s, **self.variables, **variables
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file beside the project's packages. Returns its path."""
        path = self.sources / name
        path.write_text(text)
        return path

    def check_imports(self) -> None:
        """Import modules of groupd, and then those of the project, in one process. Neither may get the other's."""
        printed = self.run(self.environment.python, "-c", _IMPORT_ALL)
        is_on_path_at_start = self.directory != self.sources
        assert printed.strip() == str(is_on_path_at_start), "sitecustomize has not imported the project"


@contextmanager
def make_project(
    directory: Path, shape: str, environment: Environment, place: str = "PYTHONPATH"
) -> Iterator[Project]:
    """Create a project (`write_project`) in a new directory. The environment runs it while the context lasts.
    `shape` is one of SHAPES; `place` is "PYTHONPATH" or one of PLACES.
    """
    installed = environment.site_packages / "project.pth"
    search_path = {"PYTHONPATH": str(directory)}
    match place:
        case "PYTHONPATH":
            project = Project(environment, environment.directory, directory, search_path)
        case "PYTHONPATH with -P":
            variables = {**search_path, "PYTHONSAFEPATH": "1"}  # of child processes, too
            project = Project(environment, environment.directory, directory, variables)
        case "current directory":
            project = Project(environment, directory, directory, {})
        case "src layout":
            project = Project(environment, directory, directory / "src", {})
            installed.write_text(str(project.sources))
        case _:
            raise ValueError(place)
    write_project(project.sources, shape)
    try:
        yield project
    finally:
        installed.unlink(missing_ok=True)


def write_project(sources: Path, shape: str) -> None:
    """Write packages `coordinator`, `pipeline`, `protocol` and `storage` of a project, all with an OWNER, to a new
    directory.

    `shape` is one of SHAPES. If Python finds the project's `sitecustomize`, it imports the packages before any
    other code. The project's `check_own` imports them and checks their owner; `test_own.py` is a test that does the
    same and needs a broker.
    """
    sources.mkdir(parents=True)
    for name in PACKAGES:
        _write_package(sources, name, shape)
    imported = [name if shape == "module" else f"{name}.own" for name in PACKAGES]
    (sources / "sitecustomize.py").write_text(f"import {', '.join(imported)}\n")
    check = "".join(
        f"import {module} as {name}_module\n" for name, module in zip(PACKAGES, imported, strict=True)
    )
    owners = ", ".join(f"{name}_module.OWNER" for name in PACKAGES)
    (sources / "check_own.py").write_text(f"{check}assert {{{owners}}} == {{'project'}}\n")
    (sources / "test_own.py").write_text(
        "def test_own(broker):\n    import check_own\n    broker.topic('orders')\n"
    )


def _write_package(sources: Path, name: str, shape: str) -> None:
    if shape == "module":
        (sources / f"{name}.py").write_text("OWNER = 'project'\n")
        return
    (sources / name).mkdir()
    (sources / name / "own.py").write_text("OWNER = 'project'\n")
    if shape == "package":
        (sources / name / "__init__.py").write_text(f"from {name}.own import OWNER\n")
