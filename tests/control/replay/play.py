"""`python -m tests.control.replay.play FILE…`: plays recordings of simulated runs, one line for each.

The name of each directory is the size up to which its core computes targets itself.
"""

import sys
from pathlib import Path
from unittest.mock import patch

from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from coordinator.group.consumer import target_assignment


def main(paths: list[str]) -> int:
    """1 where something else came of one."""
    is_same = True
    for path in map(Path, paths):
        with patch.object(target_assignment, "INLINE_MAX", int(path.parent.name)), path.open("rb") as lines:
            comparison = compare_recording(read_recording(lines))
        is_same &= comparison.different is None
        print(format_comparison(comparison).replace("\n", " "))
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
