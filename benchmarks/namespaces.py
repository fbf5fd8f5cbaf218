"""How much time and memory does a namespace take, compared with a separate daemon?"""

import asyncio
import json
from dataclasses import dataclass, field
from http.client import HTTPConnection
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report, spread
from benchmarks.startup import start_once

NAMESPACES: Final = 200
ROUNDS: Final = 5
MADE: Final = "made, ms"
RESIDENT: Final = "resident, KiB each"
TO_DAEMON: Final = "made, to a daemon's start"
FIGURES: Final = (MADE, RESIDENT, TO_DAEMON)
PATH: Final = "/v1/namespaces"
NEW: Final = json.dumps({"topics": {"orders": 6}})


class _Client:
    """A connection to the HTTP API."""

    def __init__(self, server: Server) -> None:
        self._connection = HTTPConnection(server.host, server.http_port)

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[Any, float]:
        """Send a request. Return the response and the elapsed milliseconds."""
        began = perf_counter()
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = self._connection.getresponse()
        text = response.read()
        milliseconds = (perf_counter() - began) * 1000
        assert response.status < 300, text
        return json.loads(text) if text else None, milliseconds

    def make(self) -> tuple[str, float]:
        """Create a namespace. Return its name and the elapsed milliseconds."""
        answer, milliseconds = self.ask("POST", PATH, NEW)
        return answer["name"], milliseconds

    def remove(self, name: str) -> float:
        return self.ask("DELETE", f"{PATH}/{name}")[1]


@dataclass
class _Taken:
    """Milliseconds of each creation and removal, CPU milliseconds of both, KiB, and the milliseconds of a daemon's
    start by round.
    """

    made: list[float] = field(default_factory=list)
    removed: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    resident_kib: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)


def _measure(number: int, rounds: int) -> _Taken:
    taken = _Taken()
    for _ in range(rounds):
        taken.starts.append(start_once().wall_seconds * 1000)
        # A daemon reuses freed memory for later namespaces, so each round starts a new one.
        with groupd() as server:
            client = _Client(server)
            for _ in range(20):
                client.remove(client.make()[0])
            cpu_before = server.cpu_seconds()
            for _ in range(number):
                name, milliseconds = client.make()
                taken.made.append(milliseconds)
                taken.removed.append(client.remove(name))
            taken.cpu_ms.append((server.cpu_seconds() - cpu_before) * 1000 / number)
            before = server.resident_bytes()
            for _ in range(number):
                client.make()
            taken.resident_kib.append((server.resident_bytes() - before) / 1024 / number)
    return taken


async def measure(number: int = NAMESPACES, rounds: int = ROUNDS) -> Report:
    """Create namespaces one after the other, and remove them."""
    taken = await asyncio.to_thread(_measure, number, rounds)
    report = Report(
        "A namespace",
        f"{rounds} daemons. In each, {number} namespaces of a topic with six partitions are made, by POST "
        "/v1/namespaces over one connection until the answer, and removed, one after the other, as tests do; 20 "
        "before them do not count. Then as many are made that stay: they have grown its resident set by so much. "
        "In turn with them, the start of a daemon of one's own, from its process to its ready line.",
        ["what", "median (lowest to highest)"],
    )
    made = median(taken.made)
    ratios = [made / start for start in taken.starts]
    report.rows += [
        [MADE, Absolute(spread(taken.made, ".2f"))],
        ["removed, ms", Absolute(spread(taken.removed, ".2f"))],
        ["CPU of both, ms", Absolute(spread(taken.cpu_ms, ".2f"))],
        [RESIDENT, spread(taken.resident_kib, ".0f")],
        ["a daemon's start, ms", Absolute(spread(taken.starts, ".0f"))],
        [TO_DAEMON, spread(ratios, ".4f")],
    ]
    report.figures = {MADE: made, RESIDENT: median(taken.resident_kib), TO_DAEMON: median(ratios)}
    return report
