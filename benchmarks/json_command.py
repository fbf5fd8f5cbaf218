"""Benchmarks that count executed code in a process of their own, where nothing has run before."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
"""Of the repository."""
_CHANGES_CODE: Final = frozenset({"PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG"})
"""Environment variables that make Python execute other code."""


def run_json_command(module: str, *arguments: str, hash_seed: str = "random") -> Any:
    """Run `python -m MODULE --json ARGUMENTS` with PYTHONHASHSEED=`hash_seed`, and return the decoded output.
    Raises RuntimeError with the process's standard error.
    """
    environment = {name: text for name, text in os.environ.items() if name not in _CHANGES_CODE}
    command = [sys.executable, "-m", module, "--json", *arguments]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return json.loads(ended.stdout)
