"""The command as the first process of a container. The system delivers only signals with a handler to this
process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.test_serve import TIMEOUT_S, clean_environment
from tests.interop.requirement import lacking

AS_FIRST = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]


def test_a_stop_during_the_start_ends_the_process(tmp_path: Path) -> None:
    try:
        can = subprocess.run([*AS_FIRST, "true"], capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        lacking("unshare is not installed")
    if can.returncode:
        lacking(f"no process can be the first of a namespace: {can.stderr.decode()}")
    # The start waits for the content of this file.
    properties = tmp_path / "server.properties"
    os.mkfifo(properties)
    command = [*AS_FIRST, sys.executable, "-m", "coordinator", "serve", "--config", str(properties)]
    outer = subprocess.Popen(command, env=clean_environment())
    try:
        with properties.open("w"):
            (first,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            os.kill(int(first), signal.SIGTERM)
            assert outer.wait(TIMEOUT_S) == 128 + signal.SIGTERM
    finally:
        outer.kill()
        outer.wait()
