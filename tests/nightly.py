"""The rounds that take hours, one after another, with one report at the end: `make nightly`.

A round that fails does not stop the others. The output of each goes to `.cache/nightly/ROUND.log`, the report to
standard output and to `.cache/nightly/report.txt`. The exit status is 1 when a round failed.
"""

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DIRECTORY: Final = ROOT / ".cache" / "nightly"
SHOWN_LINES: Final = 15
"""How many of the last lines of a failed round the report repeats."""


@dataclass(frozen=True)
class Round:
    """One command of a nightly run."""

    name: str
    command: tuple[str, ...]
    limit_minutes: float
    """A round that takes longer is ended and counts as failed."""


@dataclass(frozen=True)
class Result:
    """How a round ended."""

    round: Round
    exit_code: int | None
    """None: the round took longer than its limit."""
    minutes: float
    log: Path

    @property
    def failed(self) -> bool:
        return self.exit_code != 0

    @property
    def outcome(self) -> str:
        if self.exit_code is None:
            return f"FAILED: longer than {self.round.limit_minutes:g} minutes"
        return f"FAILED: exit status {self.exit_code}" if self.failed else "passed"


def rounds(seed: int) -> list[Round]:
    """All rounds of a night, the shortest first."""

    def make(target: str, *variables: str, limit_minutes: float, name: str = "") -> Round:
        return Round(name or target, ("make", "--no-print-directory", target, *variables), limit_minutes)

    return [
        make("replay", "SEEDS=1000", limit_minutes=30),
        make("fuzz", f"ARGS=--seconds 900 --seed {seed}", limit_minutes=30),
        make("attacks", f"SEED={seed}", limit_minutes=30),
        make("oracle", limit_minutes=60),
        make("oracle", "ARGS=--kafka 3.9.1", limit_minutes=60, name="oracle-3.9.1"),
        make("test-nightly", limit_minutes=60),
        make("moves", limit_minutes=60),
        make("crash", f"CRASH_SEED={seed}", limit_minutes=60),
        make("cluster-rounds", "ARGS=--rounds 50", limit_minutes=90),
        make("cluster-soak", limit_minutes=60),
        make("soak", f"SEED={seed}", limit_minutes=120),
        make("pipeline-scale", limit_minutes=90),
    ]


def run(round_: Round, directory: Path) -> Result:
    """Run one round in a process group of its own, so that its end is the end of all that it started."""
    log = directory / f"{round_.name}.log"
    start = monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            round_.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            exit_code: int | None = process.wait(round_.limit_minutes * 60)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Result(round_, exit_code, (monotonic() - start) / 60, log)


def run_all(chosen: Sequence[Round], directory: Path, tell: Callable[[str], None]) -> list[Result]:
    """Run the rounds in their order. `tell` gets a line at the start and at the end of each."""
    directory.mkdir(parents=True, exist_ok=True)
    results = []
    for round_ in chosen:
        tell(f"{round_.name}: {shlex.join(round_.command)}")
        results.append(run(round_, directory))
        tell(f"{round_.name}: {results[-1].outcome} after {results[-1].minutes:.1f} minutes")
    return results


def report(results: Sequence[Result], seed: int) -> str:
    """A table of all rounds, then the command and the last lines of each that failed."""
    lines = [f"Nightly rounds, seed {seed}", ""]
    lines += [f"{each.round.name:<16} {each.minutes:>6.1f} min  {each.outcome}" for each in results]
    for result in results:
        if result.failed:
            last = result.log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
            lines += ["", f"{result.round.name}: {shlex.join(result.round.command)}"]
            lines += [f"  {line}" for line in last] + [f"  all of it: {result.log}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make nightly", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [round_.name for round_ in rounds(0)]
    parser.add_argument("round", nargs="*", help=f"which rounds (default: all): {', '.join(names)}")
    parser.add_argument(
        "--seed", type=int, help="of the rounds that draw something (default: a new one, in the report)"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.round) - set(names))
    if unknown:
        parser.error(f"{unknown[0]} is not a round: choose from {', '.join(names)}")
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    chosen = [round_ for round_ in rounds(seed) if not given.round or round_.name in given.round]
    results = run_all(chosen, DIRECTORY, lambda line: print(line, flush=True))
    text = report(results, seed)
    (DIRECTORY / "report.txt").write_text(text)
    print(f"\n{text}", end="")
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
