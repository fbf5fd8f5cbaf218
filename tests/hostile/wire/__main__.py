"""`python -m tests.hostile.wire --seed N --players M --bursts K`: run one play and print its result."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.hostile.wire.house import playing


async def _play(seed: int, players: int, bursts: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        played = await playing(Path(directory), seed, players, bursts)
    print(
        f"seed {seed}: {played.asked.total()} requests, {played.told} answers judged, {played.joined} led groups"
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(played.asked.items())))
    print(", ".join(f"{name} {count}" for name, count in sorted(played.vices.items())))


def main() -> int:
    """Play."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.wire", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="determines the requests")
    parser.add_argument("--players", type=int, default=12, help="connections at one time")
    parser.add_argument("--bursts", type=int, default=200, help="of requests, for each player")
    arguments = parser.parse_args()
    asyncio.run(_play(arguments.seed, arguments.players, arguments.bursts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
