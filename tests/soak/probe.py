"""A sample of the daemon from outside: the system's view of its process, and its own metrics."""

import asyncio
import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample. `descriptors` are counted by kind: socket, log, deleted, other."""

    at_s: float
    rss_bytes: int
    memory_blocks: int
    descriptors: Counter[str]
    connections: int
    unanswered: int
    waiters: int
    tasks: int
    timers: int
    answer_bytes: int
    request_bytes: int
    log_bytes: int


async def metrics(http_port: int) -> dict[str, float]:
    """Return the values of /metrics, summed up over labels."""
    found: dict[str, float] = {}
    for name, value in re.findall(
        r"^([a-z_]+)(?:\{[^\n]*\})? (\S+)$", await _metrics_page(http_port), re.MULTILINE
    ):
        found[name] = found.get(name, 0) + float(value)
    return found


async def violations(http_port: int) -> dict[str, int]:
    """Return the number of violations by oracle, from /metrics."""
    page = await _metrics_page(http_port)
    found = re.findall(r'^groupd_violations_total\{oracle="(\w+)"\} (\S+)$', page, re.MULTILINE)
    return {oracle: int(float(count)) for oracle, count in found}


async def _metrics_page(http_port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", http_port)
    try:
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        return (await reader.read()).decode()
    finally:
        writer.close()


def descriptors(process_id: int) -> Counter[str]:
    """Return the open descriptors of a process by kind."""
    kinds: Counter[str] = Counter()
    directory = f"/proc/{process_id}/fd"
    for number in os.listdir(directory):
        try:
            target = os.readlink(f"{directory}/{number}")
        except FileNotFoundError:
            continue  # closed meanwhile
        kinds[_kind(target)] += 1
    return kinds


def _kind(target: str) -> str:
    if target.startswith("socket:"):
        return "socket"
    if target.endswith(" (deleted)"):
        return "deleted"
    return "log" if target.endswith(".log") or "/journal/" in target else "other"


def rss_bytes(process_id: int) -> int:
    """Its resident memory."""
    with open(f"/proc/{process_id}/statm") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


async def look(process_id: int, http_port: int, at_s: float) -> Sample:
    """A sample, `at_s` seconds after the start."""
    says = await metrics(http_port)
    return Sample(
        at_s=at_s,
        rss_bytes=rss_bytes(process_id),
        memory_blocks=int(says["groupd_memory_blocks"]),
        descriptors=descriptors(process_id),
        connections=int(says["groupd_connections"]),
        unanswered=int(says["groupd_unanswered_requests"]),
        waiters=int(says["groupd_waiters"]),
        tasks=int(says["groupd_tasks"]),
        timers=int(says["groupd_timers"]),
        answer_bytes=int(says["groupd_answer_bytes"]),
        request_bytes=int(says["groupd_request_bytes"]),
        log_bytes=int(says["groupd_log_bytes"]),
    )
