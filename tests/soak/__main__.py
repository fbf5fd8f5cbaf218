"""`python -m tests.soak --minutes 30`: 1 when something grew, was left over, or was lost."""

import argparse
import asyncio
import resource
import sys
import tempfile
from pathlib import Path

from tests.soak import judge
from tests.soak.run import Soak


def report(soak: Soak) -> None:
    """A few lines about the second half of the run."""
    half = judge.second_half(soak.samples)
    for what in judge.GROWTH if len(half) > 1 else ():
        values = [getattr(sample, what) for sample in half]
        print(
            f"{what}: {min(values)} to {max(values)}, the line gains {judge.growth(half, what):+.2%}"
            f" (bound {judge.GROWTH[what]:.0%})"
        )
    if len(half) < judge.MIN_SAMPLES:
        print("too short to judge growth: only what was left over and what was lost counts")
    for reason in soak.reasons:
        print(f"FAILED {reason}")
    print("failed" if soak.reasons else "nothing grew, nothing is left, nothing is lost")


def main() -> int:
    """Run the soak and print its result."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long the crowd stays")
    parser.add_argument("--seed", type=int, default=1, help="decides who comes, and how they end")
    parser.add_argument(
        "--keep", type=Path, help="an empty directory for data and logs; default: none is kept"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
        soak = Soak(arguments.keep or Path(directory), arguments.seed, lambda line: print(line, flush=True))
        asyncio.run(soak.run(arguments.minutes * 60))
    report(soak)
    print(f"clients: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.0f} s of CPU, with the daemon")
    return 1 if soak.reasons else 0


if __name__ == "__main__":
    sys.exit(main())
