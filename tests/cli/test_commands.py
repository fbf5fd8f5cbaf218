"""The command line itself: the list of commands, and the errors for misspelt commands and options."""

import pytest
from click.testing import CliRunner, Result

from coordinator import __version__
from coordinator.cli.main import groupd


def run(*arguments: str) -> Result:
    return CliRunner().invoke(groupd, arguments, prog_name="groupd")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["srve"], "serve"),
        (["Serve"], "serve"),
        (["versoin"], "version"),
        (["log", "dmp", "data"], "dump"),
        (["log", "verfy"], "verify"),
    ],
)
def test_a_misspelt_command_gets_a_suggestion(arguments: list[str], meant: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'?" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [["xylophone"], ["log", "xylophone"]])
def test_an_unknown_command_gets_no_suggestion(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "No such command 'xylophone'." in result.stderr
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    assert result.stdout.split()[-1] == __version__
