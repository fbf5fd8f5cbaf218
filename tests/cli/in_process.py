"""Runs commands of `groupd` in the process of the test, without the start of an interpreter.

Tests of the process itself (signals, closed streams, exit of the interpreter) start one:
`tests.cli.test_serve.groupd`, `tests.cli.terminal.Terminal`.
"""

import contextlib
import os
import subprocess
from pathlib import Path

from click.testing import CliRunner

from coordinator.cli.main import groupd


def run_groupd(
    *arguments: str, given: str = "", directory: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `groupd ARGUMENTS` with pipes for its streams and return its exit code and output.

    `given` is its standard input, `directory` its working directory (default: that of the tests). Variables that
    configure groupd are removed from the environment before `environment` is added. An exception that would
    print a traceback is raised.
    """
    inherited = dict.fromkeys(name for name in os.environ if name.startswith(("KAFKA_", "GROUPD_")))
    with contextlib.chdir(directory or "."):
        result = CliRunner().invoke(
            groupd,
            arguments,
            prog_name="groupd",
            input=given,
            env={**inherited, **environment},
            catch_exceptions=False,
        )
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)
