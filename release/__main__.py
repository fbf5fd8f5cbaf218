"""Make a release: `python -m release 0.2.0`, or `make release VERSION=0.2.0`; see docs/releasing.md.

All work is done in a temporary clone of the last commit. The checkout gets the commit, the tag and `dist/` after
everything has succeeded. Nothing is uploaded: pushing the tag starts the workflow that publishes.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from packaging.version import Version

from release import changelog
from release.artifacts import build_artifacts, remove_artifacts
from release.distributions import ROOT, ReleaseError
from release.version import check_version, read_version, write_version

GOLDEN_DATA: Final = "tests/golden/data"


def find_obstacles(root: Path, version: str) -> list[str]:
    """Return the reasons why a checkout cannot be released under a version yet, each with what to do."""
    found = []
    if _run_git(root, "status", "--porcelain"):
        found.append("the checkout has changes that are not committed: commit or remove them")
    if _run_git(root, "tag", "--list", f"v{version}"):
        found.append(
            f"the tag v{version} exists: choose a higher version, or remove a tag that is not pushed"
        )
    if not (root / GOLDEN_DATA / version).is_dir():
        found.append(
            f"{GOLDEN_DATA} has no directory {version}, so that later versions cannot be tested with its data: "
            f"python -m release.version {version}, then python -m tests.golden.generate, and commit both"
        )
    return found


def make_release(root: Path, version: str, day: date, *, is_dry_run: bool = False) -> list[str]:
    """Commit, tag and build a release of the last commit of a checkout. Returns the names of the files.

    A dry run leaves the checkout as it is, and does not mind obstacles. Raises ReleaseError.
    """
    check_version(version)
    obstacles = find_obstacles(root, version)
    if obstacles and not is_dry_run:
        raise ReleaseError("; ".join(obstacles))
    tag = f"v{version}"
    with tempfile.TemporaryDirectory(prefix="groupd-release-") as directory:
        clone = Path(directory) / "clone"
        _run_git(root, "clone", "--quiet", "--no-tags", str(root), str(clone))
        _copy_identity(root, clone)
        _write_release(clone, version, day)
        artifacts = build_artifacts(clone, Path(directory) / "dist")
        _run_git(clone, "commit", "--quiet", "--all", "--message", f"Release {version}")
        _run_git(clone, "tag", "--annotate", tag, "--message", f"groupd {version}")
        if not is_dry_run:
            _run_git(root, "pull", "--quiet", "--ff-only", "--no-rebase", str(clone), "HEAD")
            _run_git(root, "fetch", "--quiet", str(clone), "tag", tag)
            remove_artifacts(root / "dist")
            shutil.copytree(Path(directory) / "dist", root / "dist", dirs_exist_ok=True)
        return [path.name for path in artifacts]


def _write_release(clone: Path, version: str, day: date) -> None:
    before = read_version(clone)
    if Version(version) < Version(before):
        raise ReleaseError(f"version {version} is lower than {before}, the version of the checkout")
    write_version(clone, version)
    changes = clone / changelog.FILE
    changes.write_text(changelog.release_changes(changes.read_text(), version, day))


def _copy_identity(root: Path, clone: Path) -> None:
    """Commit as in the checkout: a clone does not have its local configuration."""
    for name in ("user.name", "user.email", "user.signingkey", "commit.gpgsign", "tag.gpgsign", "gpg.format"):
        done = subprocess.run(["git", "config", name], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            _run_git(clone, "config", name, done.stdout.strip())


def _run_git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Make a release of this checkout, and print the command that publishes it."""
    parser = argparse.ArgumentParser(prog="python -m release", description="Make a release.")
    parser.add_argument("version", help="its version, such as 0.2.0")
    parser.add_argument("--dry-run", action="store_true", help="do everything in a temporary clone only")
    options = parser.parse_args(arguments)
    try:
        day = datetime.now(UTC).date()
        names = make_release(ROOT, options.version, day, is_dry_run=options.dry_run)
        branch = _run_git(ROOT, "branch", "--show-current") or "HEAD"
    except ReleaseError as error:
        sys.exit(str(error))
    print("\n".join(names))
    if options.dry_run:
        print(f"Dry run of {options.version}: built and checked, nothing kept.")
        for obstacle in find_obstacles(ROOT, options.version):
            print(f"The release itself will not start: {obstacle}")
    else:
        print(
            f"Release {options.version} is committed and tagged; its files are in dist/. This publishes it:"
        )
        print(f"  git push --atomic origin {branch} v{options.version}")


if __name__ == "__main__":
    main()
