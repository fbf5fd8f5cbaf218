"""`python -m tests.hostile.fuzz --seconds 600 --seed 7 [--target NAME …]`: search for inputs that break a law."""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Final

from tests.hostile.fuzz.connection import PLACES, connection_target
from tests.hostile.fuzz.engine import Finding, Fuzzer
from tests.hostile.fuzz.expressions import expression_targets
from tests.hostile.fuzz.messages import message_targets, other_targets
from tests.hostile.fuzz.stored import stored_targets
from tests.hostile.fuzz.target import Target

_CONNECTION_SHARE: Final = 30


def all_targets() -> Iterator[Target]:
    """Every decoder of bytes from outside."""
    yield from stored_targets()
    yield from other_targets()
    yield from expression_targets()
    yield from message_targets()


def fuzz(target: Target, seed: int, seconds: float) -> Finding | None:
    """Fuzz one target for a time and print the result."""
    end = time.monotonic() + seconds
    try:
        fuzzer = Fuzzer(target, seed)
        fuzzer.run(lambda _: time.monotonic() < end)
    except Finding as finding:
        print(f"FOUND {finding}\n")
        return finding
    print(
        f"{target.name}: {fuzzer.runs} runs, {len(fuzzer.coverage.edges)} edges, {len(fuzzer.corpus)} inputs kept"
    )
    return None


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
    logging.lastResort = None  # do not print the log of the daemon
    with ExitStack() as stack:
        connections = [stack.enter_context(connection_target(place)) for place in PLACES]
        targets = _chosen([*connections, *all_targets()], arguments.target)
        if arguments.input is not None:
            for target in targets:
                target.call(bytes.fromhex(arguments.input))
            return 0
        # A daemon has more to look at than a decoder.
        shares = [_CONNECTION_SHARE if target in connections else 1 for target in targets]
        share_s = arguments.seconds / sum(shares)
        found = [
            fuzz(target, arguments.seed, share * share_s)
            for target, share in zip(targets, shares, strict=True)
        ]
    findings = len(found) - found.count(None)
    print(f"{len(targets)} targets, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
