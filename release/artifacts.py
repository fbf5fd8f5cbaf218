"""The files of a release: built, checked, with a bill of materials and checksums.

`python -m release.artifacts DIRECTORY` does that for this checkout. The option `--tag v0.2.0` refuses a checkout of
another version.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from release.bill_of_materials import write_bill
from release.contents import check_contents
from release.distributions import DISTRIBUTIONS, ROOT, ReleaseError, build, remove_built
from release.version import read_version

CHECKSUMS: Final = "SHA256SUMS"
BILL: Final = "groupd-{version}.cdx.json"


def build_artifacts(root: Path, destination: Path) -> list[Path]:
    """Build and check the files of a release from a checkout. Returns them; `destination` has no older ones.

    Each wheel is built twice, from the checkout and from the source distribution: both must have the same bytes.
    Raises ReleaseError.
    """
    version = read_version(root)
    remove_artifacts(destination)
    files: list[Path] = []
    for distribution in DISTRIBUTIONS:
        wheel, source = build(root / distribution.folder, destination, ("wheel", "sdist"))
        _compare_with_source(wheel, source)
        files += [wheel, source]
    for path in files:
        check_contents(path, version)
    _check_metadata(files)
    bill = destination / BILL.format(version=version)
    write_bill(files, version, bill)
    checksums = destination / CHECKSUMS
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted([*files, bill])
    ]
    checksums.write_text("".join(lines))
    return [*files, bill, checksums]


def remove_artifacts(destination: Path) -> None:
    """Remove the files of earlier releases and builds from a directory."""
    remove_built(destination)
    for path in (*destination.glob(BILL.format(version="*")), destination / CHECKSUMS):
        path.unlink(missing_ok=True)


def unpack_source(source: Path, directory: Path) -> Path:
    """Unpack a source distribution into an empty directory, and return its folder there."""
    with tarfile.open(source) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 or newer
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(directory)
    (folder,) = directory.iterdir()
    return folder


def _compare_with_source(wheel: Path, source: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="groupd-source-") as directory:
        (again,) = build(unpack_source(source, Path(directory)), Path(directory) / "dist")
        if again.name != wheel.name or again.read_bytes() != wheel.read_bytes():
            raise ReleaseError(
                f"{source.name} gives another wheel than the checkout: compare it with {wheel.name}"
            )


def _check_metadata(files: Sequence[Path]) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"twine check fails:\n{done.stdout}{done.stderr}".rstrip())


def main() -> None:
    """Build and check the files, and print their names."""
    parser = argparse.ArgumentParser(
        prog="python -m release.artifacts", description="Build and check a release."
    )
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag", help="refuse to build unless the checkout has the version of this tag")
    options = parser.parse_args()
    try:
        expected = f"v{read_version(ROOT)}"
        if options.tag not in (None, expected):
            raise ReleaseError(f"the tag is {options.tag}, but the version of the checkout needs {expected}")
        for path in build_artifacts(ROOT, options.directory.resolve()):
            print(path)
    except ReleaseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
