"""`python -m tests.hostile.fuzz --seconds 600 --seed 7 [--target NAME …]`: look for what breaks a law."""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator

from tests.hostile.fuzz.engine import Finding, Fuzzer
from tests.hostile.fuzz.messages import message_targets, other_targets
from tests.hostile.fuzz.stored import stored_targets
from tests.hostile.fuzz.target import Target


def all_targets() -> Iterator[Target]:
    """Everything that takes bytes from outside."""
    yield from stored_targets()
    yield from other_targets()
    yield from message_targets()


def fuzz(target: Target, seed: int, seconds: float) -> Fuzzer:
    """One target for some time. Raises Finding."""
    end = time.monotonic() + seconds
    fuzzer = Fuzzer(target, seed)
    fuzzer.run(lambda _: time.monotonic() < end)
    return fuzzer


def _chosen(targets: Iterable[Target], names: list[str] | None) -> list[Target]:
    return [one for one in targets if not names or any(name.lower() in one.name.lower() for name in names)]


def main() -> int:
    """Fuzz each target for its share of the time; 1 when there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1, help="decides every input")
    parser.add_argument(
        "--target", action="append", help="only those with this in their name (may be repeated)"
    )
    parser.add_argument("--input", help="run one input, in hex, on each of the targets")
    arguments = parser.parse_args()
    logging.disable()
    targets = _chosen(all_targets(), arguments.target)
    if arguments.input is not None:
        for target in targets:
            target.call(bytes.fromhex(arguments.input))
        return 0
    findings: list[Finding] = []
    runs = edges = 0
    for target in targets:
        try:
            fuzzer = fuzz(target, arguments.seed, arguments.seconds / len(targets))
        except Finding as finding:
            findings.append(finding)
            print(f"FOUND {finding}\n")
            continue
        runs += fuzzer.runs
        edges += len(fuzzer.coverage.edges)
        found = f"{fuzzer.runs} runs, {len(fuzzer.coverage.edges)} edges, {len(fuzzer.corpus)} inputs kept"
        print(f"{target.name}: {found}")
    print(f"{len(targets)} targets, {runs} runs, {edges} edges, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
