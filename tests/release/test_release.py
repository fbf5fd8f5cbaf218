"""The release command up to the upload, and installation from a clone, with the real builds."""

import subprocess
import sys
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import pytest

import release.__main__ as command
from release.distributions import ROOT, ReleaseError
from release.version import VERSION_FILES, read_version
from tests.distribution.environment import Environment
from tests.interop.requirement import lacking

DAY = date(2026, 11, 28)
VERSION = "99.0.0"
NAMES = {
    "SHA256SUMS",
    f"groupd-{VERSION}-py3-none-any.whl",
    f"groupd-{VERSION}.cdx.json",
    f"groupd-{VERSION}.tar.gz",
    f"groupd_client-{VERSION}-py3-none-any.whl",
    f"groupd_client-{VERSION}.tar.gz",
    f"pytest_groupd-{VERSION}-py3-none-any.whl",
    f"pytest_groupd-{VERSION}.tar.gz",
}


def git(directory: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=directory, capture_output=True, text=True, check=True
    ).stdout.strip()


def install(environment: Environment, *arguments: str) -> None:
    """Install with pip and without an index. pip finds dependencies that the environment has."""
    options = ("--quiet", "--no-index", "--no-build-isolation", "--no-warn-script-location")
    environment.run(environment.python, "-m", "pip", "install", *options, *arguments)


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.com")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout for a release; its build writes one file."""

    def build(root: Path, destination: Path) -> list[Path]:
        assert f'"{VERSION}"' in (root / VERSION_FILES[0]).read_text()
        destination.mkdir()
        (destination / "built").write_text("new")
        return [destination / "built"]

    monkeypatch.setattr(command, "build_artifacts", build)
    root = tmp_path / "checkout"
    for name in VERSION_FILES:
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text('__version__: Final = "0.1.0"\n')
    (root / ".gitignore").write_text("dist/\n")
    (root / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n- A change.\n")
    golden = root / command.GOLDEN_DATA / VERSION
    golden.mkdir(parents=True)
    (golden / "recording").touch()
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Everything")
    return root


def test_a_release_is_a_commit_and_a_tag_with_the_files_in_dist(checkout: Path) -> None:
    assert command.make_release(checkout, VERSION, DAY) == ["built"]
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "log", "-1", "--format=%s") == f"Release {VERSION}"
    assert git(checkout, "rev-list", "-1", f"v{VERSION}") == git(checkout, "rev-parse", "HEAD")
    assert git(checkout, "branch", "--show-current") == "main"
    assert f'"{VERSION}"' in (checkout / VERSION_FILES[-1]).read_text()
    assert f"## {VERSION} - 2026-11-28" in (checkout / "CHANGELOG.md").read_text()
    assert (checkout / "dist" / "built").read_text() == "new"
    with pytest.raises(ReleaseError, match=f"v{VERSION} exists"):
        command.make_release(checkout, VERSION, DAY)


def test_a_release_that_fails_leaves_the_checkout_as_it_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(root: Path, destination: Path) -> list[Path]:
        raise ReleaseError("the build fails")

    before = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setattr(command, "build_artifacts", fail)
    with pytest.raises(ReleaseError, match="the build fails"):
        command.make_release(checkout, VERSION, DAY)
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "rev-parse", "HEAD") == before
    assert git(checkout, "tag") == ""


@pytest.mark.parametrize(
    ("version", "file", "text", "reason"),
    [
        (VERSION, "notes.txt", "", "not committed"),
        ("98.0.0", "", "", "golden"),
        ("1.0", "", "", "MAJOR"),
    ],
)
def test_a_checkout_that_is_not_ready_is_refused(
    version: str, file: str, text: str, reason: str, checkout: Path
) -> None:
    if file:
        (checkout / file).write_text(text)
    with pytest.raises(ReleaseError, match=reason):
        command.make_release(checkout, version, DAY)


def test_a_lower_version_is_refused(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match=r"lower than 0\.1\.0"):
        command.make_release(checkout, "0.0.9", DAY, is_dry_run=True)


@pytest.mark.timeout(900)
def test_a_dry_run_of_this_repository_builds_and_checks_everything() -> None:
    if find_spec("twine") is None:
        lacking("twine, which checks the metadata of distributions, is not installed")
    before = git(ROOT, "rev-parse", "HEAD")
    dry_run = [sys.executable, "-m", "release", VERSION, "--dry-run"]
    done = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.splitlines()) >= NAMES
    assert git(ROOT, "rev-parse", "HEAD") == before
    assert git(ROOT, "tag", "--list", f"v{VERSION}") == ""


@pytest.mark.timeout(900)
def test_the_line_that_make_wheels_prints_installs_everything(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "release.distributions", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = (each for each in done.stdout.splitlines() if "pip install" in each)
    environment = Environment(tmp_path / "environment")
    install(environment, *line.split()[2:])
    assert environment.run(environment.script("groupd"), "version").strip() == read_version(ROOT)
    environment.run(environment.python, "-c", "import pytest_groupd.plugin, groupd_client")


@pytest.mark.timeout(900)
def test_the_plugin_is_installed_from_a_clone_with_its_neighbour(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    install(environment, f"{ROOT}/clients/pytest_groupd")
    where = environment.run(environment.python, "-c", "import groupd_client; print(groupd_client.__file__)")
    assert where.startswith(str(environment.directory))
