"""`python -m tests.hostile.attacks [API]...`: play attacks and print their effects; 1 when a bound is exceeded."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.hostile.attacks.attack import EXTENDED_SIZE, LARGEST_SIZE, SAMPLE_SIZE, Attack, generate_attacks
from tests.hostile.attacks.attack_runner import TABLE_HEAD, filled_daemon
from tests.hostile.attacks.expensive_state import EXTENDED_STATE, LARGEST_STATE, SAMPLE_STATE

SIZES = {
    "sample": (SAMPLE_SIZE, SAMPLE_STATE),
    "extended": (EXTENDED_SIZE, EXTENDED_STATE),
    "largest": (LARGEST_SIZE, LARGEST_STATE),
}


async def play(attacks: Sequence[Attack], size: str, directory: Path) -> list[str]:
    """Play attacks and print a row of each; return the violations."""
    attack_size, state_size = SIZES[size]
    violations: list[str] = []
    async with filled_daemon(directory, state_size) as runner:
        print(TABLE_HEAD, flush=True)
        for attack in attacks:
            result = await runner.play(attack, attack_size)
            print(result.format_row(), flush=True)
            for stack in result.longest_step.stacks[:1]:
                print(f"  {stack}", flush=True)
            for violation in result.find_violations():
                print(f"  VIOLATION {violation}", flush=True)
                violations.append(violation)
    return violations


def main() -> int:
    """Play all attacks, or those on some APIs."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.attacks", description=__doc__)
    parser.add_argument("api", nargs="*", help="names of APIs, such as OffsetFetch (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="draws versions and the order")
    parser.add_argument(
        "--size", choices=SIZES, default="largest", help="of requests and of the daemon's state"
    )
    parser.add_argument(
        "--all-versions", action="store_true", help="the newest, the oldest and a drawn version"
    )
    given = parser.parse_args()
    attacks = generate_attacks(given.seed, all_versions=given.all_versions)
    unknown = sorted(set(given.api) - {attack.list_field.api.name for attack in attacks})
    if unknown:
        parser.error(f"{unknown[0]} is not an API with a list in its request")
    chosen = [attack for attack in attacks if not given.api or attack.list_field.api.name in given.api]
    with tempfile.TemporaryDirectory() as directory:
        violations = asyncio.run(play(chosen, given.size, Path(directory)))
    print(f"{len(chosen)} attacks, {len(violations)} violations, seed {given.seed}")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
