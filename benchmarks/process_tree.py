"""What a process and all it started have used, as the kernel counts it."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of its `stat` file after its name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def descendants(pid: int) -> Iterator[int]:
    """A process and every process below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += parents.get(current, [])


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, those included that have ended and been waited for."""
    ticks = 0
    for each in descendants(pid):
        try:
            ticks += sum(int(field) for field in _stat(each)[11:15])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return ticks / _TICKS_PER_SECOND


def peak_resident_bytes(pid: int) -> int:
    """The most resident memory that a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no resident memory")


def command_of(pid: int) -> str:
    """Its command line; "" once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
