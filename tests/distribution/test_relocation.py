"""Relocation of import statements, lines that the build refuses, and the files of an installation."""

import subprocess
from pathlib import Path

import pytest

import coordinator
import groupd
from groupd.relocation import PACKAGES, NotRelocatable, files_below, relocate, shipped_files

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("line", "relocated"),
    [
        ("from coordinator.core import clock", "from groupd.coordinator.core import clock"),
        ("from  storage.log import (\n    Log,\n)", "from  groupd.storage.log import (\n    Log,\n)"),
        ("import protocol.error_codes as errors", "import groupd.protocol.error_codes as errors"),
        ("if True:\n    from pipeline.cli import main", "if True:\n    from groupd.pipeline.cli import main"),
        ("a = 'ü'; from storage import log", "a = 'ü'; from groupd.storage import log"),
        ("from storages import log", "from storages import log"),
        ("from .storage import log", "from .storage import log"),
        ("import os, json", "import os, json"),
        ("from aiohttp import storage", "from aiohttp import storage"),
        ("storage = 'storage'", "storage = 'storage'"),
        ("label('storage')", "label('storage')"),
        ("usage = 'python -m protocol.codegen MESSAGE'", "usage = 'python -m protocol.codegen MESSAGE'"),
    ],
)
def test_import_statements_are_relocated_and_nothing_else(line: str, relocated: str) -> None:
    assert relocate(line.encode(), "module.py").decode() == relocated


@pytest.mark.parametrize(
    "line",
    [
        "import coordinator",
        "import os, coordinator.core.clock",
        "from \\\n  coordinator.core import clock",
        "name = 'coordinator.core.clock'",
        "name = f'coordinator.cli.{command}'",
        "name = 'coordinator.cli.main:main'",
        "importlib.import_module('storage')",
        "files('coordinator') / 'py.typed'",
    ],
)
def test_a_name_that_would_be_missing_in_an_installation_fails_the_build(line: str) -> None:
    with pytest.raises(NotRelocatable, match=r"^module\.py:2: "):
        relocate(f"\n{line}\n".encode(), "module.py")


def test_every_module_can_be_relocated_and_keeps_its_lines() -> None:
    for path in shipped_files(REPOSITORY).values():
        if path.suffix == ".py":
            source = path.read_bytes()
            assert relocate(source, str(path)).count(b"\n") == source.count(b"\n")


def test_an_installation_has_every_file_of_the_packages_that_git_has() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    there = {name for name in listed.stdout.splitlines() if (REPOSITORY / name).exists()}
    shipped = {name for name in shipped_files(REPOSITORY) if "/" in name}
    assert shipped == there


def test_bytecode_and_hidden_files_are_not_shipped(tmp_path: Path) -> None:
    for name in ("log.py", "page.css", ".log.py.swp", "__pycache__/log.cpython-311.pyc.1234", "part/log.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)]
    assert found == ["log.py", "page.css", "part/log.py"]


def test_every_package_says_that_it_is_typed() -> None:
    shipped = shipped_files(REPOSITORY)
    assert [package for package in PACKAGES if f"{package}/py.typed" not in shipped] == []
    assert "py.typed" in shipped


def test_the_version_is_the_same_under_both_names() -> None:
    assert groupd.__version__ == coordinator.__version__
