"""What Spark's virtual machine prints on standard error, less the line that it greets everybody with.

Spark asks Java for a module that Java calls incubating, and no option of either keeps Java from saying so each
time. The virtual machine inherits standard error when it is launched; here it gets a pipe, from which all but that
line goes on.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_GREETING: Final = b"WARNING: Using incubator modules: jdk.incubator.vector"
_STANDARD_ERROR: Final = 2


@contextmanager
def without_greeting() -> Iterator[None]:
    """Let processes that start in this context print through the pipe until they end."""
    output, pipe = os.pipe()
    ours = os.dup(_STANDARD_ERROR)
    threading.Thread(target=_pass_on, args=(output, os.dup(ours)), daemon=True).start()
    os.dup2(pipe, _STANDARD_ERROR)
    os.close(pipe)
    try:
        yield
    finally:
        os.dup2(ours, _STANDARD_ERROR)
        os.close(ours)


def _pass_on(output: int, target: int) -> None:
    with open(output, "rb") as lines, open(target, "wb", buffering=0) as printed:
        for line in lines:
            if line.rstrip() != _GREETING:
                printed.write(line)
