"""`python -m tests.repeat_failures FILE`: run the tests that FILE lists once more, one after another.

`.ci/run` does that with the failures of a tier. A test that fails beside hundreds of others and passes alone is
unstable: the test has a race, or groupd has one, and its developers have to find it. But it does not stop a change
that has nothing to do with it. More than `MAX_REPEATED` failures are not repeated.

The exit status is 0 if all of them pass now. It is 1 if one fails again, if there are too many, or if FILE is
empty: then the tier failed for another reason.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MAX_REPEATED: Final = 3
_GROUP: Final = re.compile(r"@[^@\]]+$")


def read_failures(path: Path) -> list[str]:
    """Return the tests of a file with one identifier in each line. xdist adds `@group` to an identifier."""
    text = path.read_text() if path.exists() else ""
    return list(dict.fromkeys(_GROUP.sub("", line) for line in text.splitlines()))


def repeat(failures: Sequence[str]) -> bool:
    """Run each test in a pytest of its own. Return whether all passed."""
    passed = True
    for test in failures:
        command = [sys.executable, "-X", "dev", "-m", "pytest", "-q", "-p", "no:randomly", "-m", "", test]
        passes = subprocess.run(command, check=False).returncode == 0
        print(f"{'UNSTABLE, passed alone' if passes else 'FAILED AGAIN'}: {test}", flush=True)
        passed = passed and passes
    return passed


def main(path: Path) -> int:
    """Repeat the failures of a file. Return the exit status."""
    failures = read_failures(path)
    if not failures:
        return 1
    if len(failures) > MAX_REPEATED:
        print(f"{len(failures)} tests failed; up to {MAX_REPEATED} failures are repeated alone.")
        return 1
    return 0 if repeat(failures) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
