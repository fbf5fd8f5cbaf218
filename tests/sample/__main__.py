"""Writes sample data: `python -m tests.sample DIR`."""

import argparse
import os
import shutil
import sys
import tempfile
from typing import Final

from tests.sample.daemon import groupd
from tests.sample.life import TOPICS, Life

SECONDS: Final = 45.0


def main() -> None:
    """Leaves a copy of groupd's data directory in the directory named on the command line, which must not exist."""
    parser = argparse.ArgumentParser(prog="python -m tests.sample", description=__doc__)
    parser.add_argument("directory", help="where groupd's directory is copied to; must not exist")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the groups live")
    options = parser.parse_args()
    if os.path.exists(options.directory):
        parser.error(f"{options.directory} exists already")
    sys.stderr.write(f"running clients against groupd for {options.seconds:.0f} s\n")
    with tempfile.TemporaryDirectory() as data, groupd(data, TOPICS) as bootstrap:
        Life(bootstrap, options.seconds, lambda: _copy(data, options.directory)).live()


def _copy(data: str, directory: str) -> None:
    shutil.copytree(data, directory, ignore=shutil.ignore_patterns(".lock"))


if __name__ == "__main__":
    main()
