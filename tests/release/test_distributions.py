"""Wheels and source distributions: reproducible builds, listed contents, and requirements."""

import os
import shutil
import subprocess
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from release.artifacts import unpack_source
from release.bill_of_materials import create_bill
from release.contents import check_contents
from release.distributions import DISTRIBUTIONS, ROOT, Distribution, ReleaseError, build, remove_built
from release.version import read_version
from tests.interop.requirement import lacking

VERSION = read_version(ROOT)
_, CLIENT, PLUGIN = DISTRIBUTIONS
TARGETS = ("wheel", "sdist")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The wheels and source distributions of the clients, which are built in a moment."""
    if find_spec("hatchling") is None:
        lacking("hatchling, which builds the wheels, is not installed")
    destination = tmp_path_factory.mktemp("dist")
    return {each.name: build(ROOT / each.folder, destination, TARGETS) for each in (CLIENT, PLUGIN)}


@pytest.mark.parametrize("distribution", [CLIENT, PLUGIN], ids=lambda each: each.name)
def test_another_copy_of_the_sources_gives_the_same_bytes(
    distribution: Distribution, built: dict[str, list[Path]], tmp_path: Path
) -> None:
    copy = tmp_path / "other clone" / distribution.folder
    shutil.copytree(ROOT / distribution.folder, copy, copy_function=shutil.copyfile)
    shutil.copy(ROOT / ".gitignore", tmp_path / "other clone")  # hatchling puts it into source distributions
    for number, path in enumerate(sorted(copy.rglob("*"), reverse=True)):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (number, number))
    again = build(copy, tmp_path / "dist", TARGETS)
    assert [path.name for path in again] == [path.name for path in built[distribution.name]]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built[distribution.name]]


def test_a_wheel_for_other_machines_requires_the_client_by_version(built: dict[str, list[Path]]) -> None:
    wheel, _ = built[PLUGIN.name]
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert f"groupd-client>={VERSION}" in metadata.get_all("Requires-Dist", [])
    assert not [each for each in metadata.get_all("Requires-Dist", []) if "file:" in each]


def test_contents_are_those_of_the_lists(built: dict[str, list[Path]]) -> None:
    for paths in built.values():
        for path in paths:
            check_contents(path, VERSION)


@pytest.mark.parametrize(
    ("extra", "dropped", "problem"),
    [
        ("groupd_client/secret.txt", "", "groupd_client/secret.txt is not listed"),
        ("tests/test_client.py", "", r"tests/\*.py is not listed"),
        ("", "groupd_client/py.typed", "groupd_client/py.typed is missing"),
    ],
)
def test_other_contents_are_refused(
    extra: str, dropped: str, problem: str, built: dict[str, list[Path]], tmp_path: Path
) -> None:
    wheel, _ = built[CLIENT.name]
    changed = tmp_path / wheel.name
    with ZipFile(wheel) as before, ZipFile(changed, "w") as after:
        for name in before.namelist():
            if name != dropped:
                after.writestr(name, before.read(name))
        if extra:
            after.writestr(extra, "")
    with pytest.raises(ReleaseError, match=problem):
        check_contents(changed, VERSION)


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'nothing'\n")
    with pytest.raises(ReleaseError, match="version"):
        build(tmp_path, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_files_of_other_versions_are_removed_and_nothing_else(tmp_path: Path) -> None:
    built = (
        "groupd-0.0.1-py3-none-any.whl",
        "groupd_client-9.tar.gz",
        "pytest_groupd-0.1.0-py3-none-any.whl",
    )
    others = ("groupd.txt", "other-0.1.0-py3-none-any.whl")
    for name in (*built, *others):
        (tmp_path / name).touch()
    remove_built(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_the_bill_of_materials_has_files_and_requirements(built: dict[str, list[Path]]) -> None:
    files = [path for paths in built.values() for path in paths]
    bill = create_bill(files, VERSION)
    assert create_bill(files[::-1], VERSION) == bill
    components = {each["name"]: each for each in bill["components"]}
    listed = {
        reference["url"] for each in components.values() for reference in each.get("externalReferences", ())
    }
    assert listed == {path.name for path in files}
    assert {name: components[name]["scope"] for name in ("urllib3", "pluggy", "aiohttp", "yarl")} == {
        "urllib3": "required",
        "pluggy": "required",
        "aiohttp": "optional",
        "yarl": "optional",
    }
    requires = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert requires["pytest-groupd"] == ["groupd-client", "pytest"]
    assert requires["groupd-client"] == ["aiohttp", "urllib3"]


def test_git_ignores_what_builds_leave_behind() -> None:
    left = [
        f"{folder}{name}"
        for folder in ("", "clients/groupd_client/", "clients/pytest_groupd/")
        for name in ("dist/x.whl", "build/lib/x.py", "x.egg-info/PKG-INFO", "__pycache__/x.pyc")
    ]
    done = subprocess.run(
        ["git", "check-ignore", *left], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == left


def test_a_source_distribution_has_what_its_build_needs(built: dict[str, list[Path]], tmp_path: Path) -> None:
    wheel, source = built[PLUGIN.name]
    (again,) = build(unpack_source(source, tmp_path), tmp_path / "dist")
    assert again.read_bytes() == wheel.read_bytes()
