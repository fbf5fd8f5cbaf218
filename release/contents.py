"""What wheels and source distributions contain, compared with the lists in `release/contents`.

A line is the path of a file. Python modules of a folder are one line, `groupd/storage/*.py`: the lists change with
folders and data files. `python -m release.contents FILE...` writes the lists of built files anew.
"""

import argparse
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from release.distributions import DISTRIBUTIONS, ReleaseError

LISTS: Final = Path(__file__).parent / "contents"


def check_contents(path: Path, version: str) -> None:
    """Raise ReleaseError if a wheel or source distribution lacks a listed file or has one that is not listed."""
    listed = set(_find_list(path).read_text().splitlines())
    contained = set(summarize(_read_names(path), version))
    problems = [f"{name} is not listed" for name in sorted(contained - listed)]
    problems += [f"{name} is missing" for name in sorted(listed - contained)]
    if problems:
        raise ReleaseError(
            f"{path.name} does not have the contents of {_find_list(path).name}: {'; '.join(problems)}. If that is "
            f"intended: python -m release.contents {path}"
        )


def summarize(names: Iterable[str], version: str) -> list[str]:
    """Return the lines for the files of an archive, sorted. The version is replaced by `VERSION`."""
    lines = set()
    for name in names:
        folder, _, file = name.replace(f"-{version}", "-VERSION").rpartition("/")
        lines.add(f"{folder}/*.py" if folder and file.endswith(".py") else f"{folder}/{file}".lstrip("/"))
    return sorted(lines)


def _read_names(path: Path) -> list[str]:
    if path.suffix == ".whl":
        return ZipFile(path).namelist()
    with tarfile.open(path) as archive:
        return [member.name for member in archive if not member.isdir()]


def _find_list(path: Path) -> Path:
    name = next(each.name for each in DISTRIBUTIONS if path.name.startswith(each.file_prefix))
    return LISTS / f"{name}.{'wheel' if path.suffix == '.whl' else 'sdist'}.txt"


def main() -> None:
    """Write the lists of built files."""
    parser = argparse.ArgumentParser(
        prog="python -m release.contents", description="Write lists of contents."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in parser.parse_args().files:
        version = path.name.split("-")[1].removesuffix(".tar.gz")
        _find_list(path).write_text("\n".join(summarize(_read_names(path), version)) + "\n")


if __name__ == "__main__":
    main()
