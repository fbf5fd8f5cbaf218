"""`python -m tests.control.replay --seeds N`: simulated runs are recorded, and other processes play them.

Each seed has four runs: groups of both protocols, recorded from their beginning and from the middle of their lives.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.control.replay.recorder import lines_of
from tests.control.replay.runs import MIDDLE, Run, run

AT_ONCE: Final = 20
"""The number of seeds that one process plays."""


def main() -> int:
    """1 where something else came of a recording."""
    parser = argparse.ArgumentParser(prog="python -m tests.control.replay", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many, from 0 on")
    seeds: int = parser.parse_args().seeds
    said: Counter[str] = Counter()
    for first in range(0, seeds, AT_ONCE):
        with tempfile.TemporaryDirectory() as directory:
            paths = record(range(first, min(first + AT_ONCE, seeds)), Path(directory))
            played = play(paths, hash_seed=first + 1)
        for path, text in zip(paths, played, strict=True):
            said[text.partition(":")[0]] += 1
            if not text.startswith("identical: "):
                print(f"{path.relative_to(directory)}: {text}")
                return 1
            said["inputs"] += int(text.split()[1])
    print(
        f"{seeds} seeds, {said['identical']} recordings, {said['inputs']} inputs: identical in other processes"
    )
    return 0


def record(seeds: range, directory: Path) -> list[Path]:
    """The files of these seeds."""
    return [
        path
        for seed in seeds
        for of_consumers in (False, True)
        for begins_after in (0, MIDDLE)
        for path in written(
            run(seed, of_consumers=of_consumers, begins_after=begins_after),
            directory / f"{seed}-{'consumer' if of_consumers else 'classic'}-{begins_after}",
        )
    ]


def written(done: Run, directory: Path) -> list[Path]:
    """Return the files of a run, in a directory named after the configuration of its core."""
    place = directory / str(done.inline_max)
    place.mkdir(parents=True)
    paths = []
    for recording in done.recorder.recordings:
        path = place / f"{recording.group_id}.groupd-rec"
        path.write_bytes(b"".join(lines_of(recording)))
        paths.append(path)
    return paths


def play(paths: list[Path], hash_seed: int) -> list[str]:
    """Return the output of another process with another hash seed for each file."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-m", "tests.control.replay.play", *map(str, paths)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if ended.stderr:
        raise RuntimeError(ended.stderr)
    return ended.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
