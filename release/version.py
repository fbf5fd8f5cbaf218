"""The version of all distributions. Its place is `distribution/groupd/__init__.py`; other files repeat it.

`python -m release.version 0.2.0` writes it everywhere. The distributions cannot import it from each other.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from release.distributions import ROOT, ReleaseError

VERSION_FILES: Final = (
    "distribution/groupd/__init__.py",
    "coordinator/__init__.py",
    "clients/groupd_client/groupd_client/version.py",
    "clients/pytest_groupd/pytest_groupd/__init__.py",
)
"""The files with the version. hatchling reads it from them, too. The first one is the place that counts."""

_ASSIGNMENT: Final = re.compile(r'^(__version__: Final = ")([^"]+)(")$', re.MULTILINE)
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")


def read_version(root: Path) -> str:
    """Return the version of a checkout. Raises ReleaseError if a file has another one."""
    found = {name: _read(root / name) for name in VERSION_FILES}
    version = found[VERSION_FILES[0]]
    others = {name: text for name, text in found.items() if text != version}
    if others:
        raise ReleaseError(
            f"{VERSION_FILES[0]} has version {version}, but "
            + ", ".join(f"{name} has {text}" for name, text in others.items())
            + f". Write one version everywhere: python -m release.version {version}"
        )
    return version


def write_version(root: Path, version: str) -> None:
    """Write a version into all files of a checkout. Raises ReleaseError if it is malformed."""
    check_version(version)
    for name in VERSION_FILES:
        path = root / name
        _read(path)
        path.write_text(_ASSIGNMENT.sub(rf"\g<1>{version}\g<3>", path.read_text()))


def check_version(version: str) -> None:
    """Raise ReleaseError unless a version has the form of the versions of this project."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version: write MAJOR.MINOR.PATCH or MAJOR.MINOR.PATCHrcN")


def _read(path: Path) -> str:
    found = _ASSIGNMENT.findall(path.read_text())
    if len(found) != 1:
        raise ReleaseError(
            f'{path} must have one line `__version__: Final = "VERSION"`, and has {len(found)}'
        )
    return str(found[0][1])


def main() -> None:
    """Print the version, or write another one."""
    parser = argparse.ArgumentParser(
        prog="python -m release.version", description="Print or write the version."
    )
    parser.add_argument("version", nargs="?", help="the version to write into all files")
    version = parser.parse_args().version
    try:
        if version is not None:
            write_version(ROOT, version)
        print(read_version(ROOT))
    except ReleaseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
