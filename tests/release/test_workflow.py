"""The workflow that tests, builds and publishes a release."""

import subprocess

from release.distributions import ROOT
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.release import actionlint


def test_actionlint_finds_nothing_in_the_workflows() -> None:
    try:
        command = actionlint.command()
    except CannotBuild as why:
        lacking(str(why))
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    done = subprocess.run([*command, *workflows], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
