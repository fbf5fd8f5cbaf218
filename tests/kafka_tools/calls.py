"""Calls of groupd's tools: in this process, and as programs."""

import contextlib
import io
import subprocess
import sys
from collections.abc import Sequence
from unittest.mock import patch

from coordinator.cli.kafka_tools.dispatch import main
from tests.interop.build import CHECKOUT
from tests.kafka_tools.player import Result

TIMEOUT_S = 60


def run_tool(tool: str, arguments: Sequence[str], stdin: str = "") -> Result:
    """Run one of groupd's tools in this process."""
    out, err = io.StringIO(), io.StringIO()
    typed = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.object(sys, "stdin", typed),
    ):
        status = main(tool, arguments)
    return Result(out.getvalue(), err.getvalue(), status)


def run_well(tool: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool that has to succeed; its standard output."""
    result = run_tool(tool, arguments, stdin)
    assert result.status == 0, result
    return result.out


def start_tool(tool: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
    """Start a tool as a program, with pipes for its output."""
    return subprocess.Popen(
        [sys.executable, "-m", "coordinator.cli.kafka_tools", tool, *arguments],
        cwd=CHECKOUT,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
