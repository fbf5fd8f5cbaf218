"""Print the code that no test executes: a table by package, and the lines by file.

`make coverage` runs it with the path of the output of `coverage json`.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Package(NamedTuple):
    """How much of a package there is, and is not executed. A branch is a jump from one line to another."""

    name: str
    lines: int
    missing_lines: int
    branches: int
    missing_branches: int

    @property
    def percent(self) -> float:
        """The executed share of lines and branches together in percent; 100 without any."""
        whole = self.lines + self.branches
        return 100 * (1 - (self.missing_lines + self.missing_branches) / whole) if whole else 100.0


def packages(files: dict[str, Any]) -> list[Package]:
    """The packages of a report's files, by name."""
    found: dict[str, Package] = {}
    for path, file in files.items():
        name = os.path.dirname(path).replace("/", ".")
        counts = file["summary"]
        before = found.get(name, Package(name, 0, 0, 0, 0))
        found[name] = Package(
            name,
            before.lines + counts["num_statements"],
            before.missing_lines + counts["missing_lines"],
            before.branches + counts["num_branches"],
            before.missing_branches + counts["missing_branches"],
        )
    return sorted(found.values())


def spans(lines: Iterable[int]) -> Iterator[str]:
    """Format ascending line numbers, consecutive ones as `first-last`."""
    first = last = 0
    for line in lines:
        if line == last + 1 and first:
            last = line
            continue
        if first:
            yield _span(first, last)
        first = last = line
    if first:
        yield _span(first, last)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def main(path: str) -> None:
    """Prints both."""
    with open(path, encoding="utf-8") as report:
        files = json.load(report)["files"]
    for name, file in files.items():
        lines = file["missing_lines"]
        # What leads from or to a missing line goes without saying.
        jumps = [jump for jump in file["missing_branches"] if not {*jump} & {*lines}]
        if lines or jumps:
            ranges = (f"{start}->{'end' if end < 0 else end}" for start, end in jumps)
            print(f"{name}: {' '.join([*spans(lines), *ranges])}")
    print(f"\n{'package':34} {'lines':>6} {'missed':>6} {'branches':>8} {'missed':>6} {'executed':>8}")
    for each in packages(files):
        print(
            f"{each.name:34} {each.lines:6} {each.missing_lines:6} {each.branches:8} {each.missing_branches:6}"
            f" {each.percent:6.1f} %"
        )


if __name__ == "__main__":
    main(sys.argv[1])
