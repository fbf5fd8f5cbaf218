"""The Python program that Spark starts for its workers on this machine.

Spark puts its own `pyspark.zip` in front of PYTHONPATH. Python keeps no compiled code of modules in an archive:
each process compiles PySpark again, 1.4 of the 2 CPU-seconds of its start. A run starts five such processes, and
Spark gives up on a process that does not connect within ten seconds. A script in the place of the interpreter
therefore restores the PYTHONPATH of the driver, and workers import the installed PySpark.
"""

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

_VARIABLE: Final = "PYSPARK_PYTHON"
_SHELL: Final = "/bin/sh"
_SCRIPT: Final = """#!{shell}
PYTHONPATH={path}
export PYTHONPATH
exec {python} "$@"
"""


@contextmanager
def worker_python(*, is_local: bool) -> Iterator[None]:
    """Choose the workers' Python for a Spark that starts in this context, unless PYSPARK_PYTHON names one.

    Workers on other machines run the interpreter of this process, by its path.
    """
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = (_create_script() if is_local else None) or sys.executable
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


@cache
def _create_script() -> str | None:
    """Return the path of a script that is removed at exit; None where it would not work or not help."""
    if (
        not os.access(_SHELL, os.X_OK)
        or not (Path(pyspark.__file__).parent / "python/lib/pyspark.zip").exists()
    ):
        return None
    directory = tempfile.mkdtemp(prefix="groupd-pipeline-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = Path(directory, "python")
    path = os.environ.get("PYTHONPATH", "")
    script.write_text(
        _SCRIPT.format(shell=_SHELL, path=shlex.quote(path), python=shlex.quote(sys.executable)),
        encoding="utf-8",
    )
    script.chmod(0o700)
    # Nothing runs in a directory that is mounted without the right to execute programs.
    return str(script) if os.access(script, os.X_OK) else None
