"""The commands of `make run`, printed by make without running them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.requirement import lacking
from tests.tooling.test_tidy import ROOT

DECLARED = "--topic orders:6"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with the prerequisites of the recipe, without data."""
    if shutil.which("make") is None:
        lacking("make is missing")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def serves(clone: Path, arguments: str = "") -> str:
    """The command line of the daemon."""
    done = subprocess.run(
        ["make", "-n", "run", f"ARGS={arguments}"], cwd=clone, capture_output=True, text=True, check=True
    )
    return next(line for line in done.stdout.splitlines() if "groupd serve" in line)


def test_a_new_clone_gets_a_topic_to_play_with(clone: Path) -> None:
    assert DECLARED in serves(clone)
    assert DECLARED in serves(clone, "--profile test")


def test_a_topic_that_is_there_stays_as_it_is(clone: Path) -> None:
    (clone / "data" / "orders-0").mkdir(parents=True)
    assert "--topic" not in serves(clone)
    assert DECLARED in serves(clone, "--data-dir other")


def test_a_topic_that_is_named_is_the_only_one(clone: Path) -> None:
    assert serves(clone, "--topic payments:3").endswith("groupd serve  --topic payments:3")
