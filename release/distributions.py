"""The distributions of this repository, and their wheels and source distributions.

`python -m release.distributions` (`make wheels`) builds the wheels into `dist/` and prints the command that
installs them. hatchling gives files fixed times, orders and modes: the same sources give the same bytes.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]


class ReleaseError(Exception):
    """A release cannot be made; the message says why and what to do."""


class Distribution(NamedTuple):
    """A distribution: its name, and its folder in the repository."""

    name: str
    folder: str

    @property
    def file_prefix(self) -> str:
        """Return the prefix of its file names."""
        return f"{self.name.replace('-', '_')}-"


DISTRIBUTIONS: Final = (
    Distribution("groupd", "."),
    Distribution("groupd-client", "clients/groupd_client"),
    Distribution("pytest-groupd", "clients/pytest_groupd"),
)


def build(folder: Path, destination: Path, targets: Sequence[str] = ("wheel",)) -> list[Path]:
    """Build a distribution with the hatchling of this Python, and return the files in the order of `targets`.

    `folder` has its pyproject.toml; `targets` are "wheel" and "sdist"; `destination` keeps its other files.
    Raises ReleaseError with the output of the build.
    """
    with tempfile.TemporaryDirectory(prefix="groupd-build-") as directory:
        options = [part for target in targets for part in ("--target", target)]
        command = [sys.executable, "-m", "hatchling", "build", *options, "--directory", directory]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ReleaseError(f"{folder} cannot be built:\n{done.stdout}{done.stderr}".rstrip())
        destination.mkdir(parents=True, exist_ok=True)
        suffixes = {"wheel": "*.whl", "sdist": "*.tar.gz"}
        built = [path for target in targets for path in Path(directory).glob(suffixes[target])]
        return [Path(shutil.move(path, destination / path.name)) for path in built]


def remove_built(destination: Path) -> None:
    """Remove wheels and source distributions of any version, so that a directory holds those of one build."""
    for distribution in DISTRIBUTIONS:
        for suffix in ("-py3-none-any.whl", ".tar.gz"):
            for path in destination.glob(f"{distribution.file_prefix}*{suffix}"):
                path.unlink()


def build_wheels(root: Path, destination: Path) -> list[Path]:
    """Build the wheels of all distributions, in their order. Raises ReleaseError."""
    remove_built(destination)
    return [build(root / each.folder, destination)[0] for each in DISTRIBUTIONS]


def main() -> None:
    """Build the wheels and print the command that installs them."""
    parser = argparse.ArgumentParser(prog="python -m release.distributions", description="Build all wheels.")
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist")
    directory = parser.parse_args().directory.resolve()
    try:
        wheels = build_wheels(ROOT, directory)
    except ReleaseError as error:
        sys.exit(str(error))
    print("Install groupd and its packages for tests into an environment:")
    print(f"  pip install {shlex.join(map(str, wheels))}")


if __name__ == "__main__":
    main()
