"""The Java driver's classes in a class data archive, so that each member need not load them again.

`python -m tests.interop.java_archive FILE` makes such an archive of what a member of a group loads. A virtual
machine that it does not fit, since Java is another one, does without it.
"""

import subprocess
import sys
import tempfile

from tests.interop.build import BUILD_TIMEOUT_S, java_machine
from tests.interop.daemon import Daemon


def main(file: str) -> None:
    """Lets a member join, commit and leave, in a machine that writes down its classes when it ends."""
    with tempfile.TemporaryDirectory() as directory:
        daemon = Daemon(directory, "--topic", "orders:1")
        try:
            options = ("--bootstrap", daemon.bootstrap, "--group", "g", "--topics", "orders")
            _live([*java_machine(), f"-XX:ArchiveClassesAtExit={file}", "Driver", *options])
        finally:
            daemon.kill()


def _live(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as member:
        assert member.stdin is not None
        assert member.stdout is not None
        for line in member.stdout:
            if '"assigned"' in line:
                member.stdin.write("commit\nleave\n")
                member.stdin.flush()
        assert member.wait(BUILD_TIMEOUT_S) == 0


if __name__ == "__main__":
    main(sys.argv[1])
