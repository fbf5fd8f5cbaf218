"""How long does a whole broker of one's own take, and how much memory, beside a daemon of one's own?"""

import asyncio
import json
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
    """One connection to the HTTP API."""

    def __init__(self, server: Server) -> None:
        self._connection = HTTPConnection(server.host, server.http_port)

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[Any, float]:
        """The answer, and after how many milliseconds it was there."""
        began = perf_counter()
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = self._connection.getresponse()
        text = response.read()
        milliseconds = (perf_counter() - began) * 1000
        assert response.status < 300, text
        return json.loads(text) if text else None, milliseconds

    def make(self, number: int) -> tuple[list[str], list[float]]:
        """So many namespaces, one after the other. Out: their names, and what each took."""
        answers = [self.ask("POST", PATH, NEW) for _ in range(number)]
        return [answer["name"] for answer, _ in answers], [taken for _, taken in answers]

    def remove(self, names: list[str]) -> list[float]:
        return [self.ask("DELETE", f"{PATH}/{name}")[1] for name in names]


def _measure(
    number: int, rounds: int
) -> tuple[list[float], list[float], list[float], list[float], list[float]]:
    """Milliseconds of all that were made and removed, and CPU milliseconds, KiB and the milliseconds of a daemon's
    start by round."""
    made: list[float] = []
    removed: list[float] = []
    cpu_ms: list[float] = []
    resident_kib: list[float] = []
    starts: list[float] = []
    for _ in range(rounds):
        starts.append(start_once().wall_seconds * 1000)
        # A daemon that has grown gives its memory to the next namespaces: each round has a new one.
        with groupd() as server:
            client = _Client(server)
            client.remove(client.make(20)[0])
            before, cpu_before = server.resident_bytes(), server.cpu_seconds()
            names, taken = client.make(number)
            resident_kib.append((server.resident_bytes() - before) / 1024 / number)
            cpu_ms.append((server.cpu_seconds() - cpu_before) * 1000 / number)
            made += taken
            removed += client.remove(names)
    return made, removed, cpu_ms, resident_kib, starts


async def measure(number: int = NAMESPACES, rounds: int = ROUNDS) -> Report:
    """Make namespaces one after the other, and remove them."""
    made, removed, cpu_ms, resident_kib, starts = await asyncio.to_thread(_measure, number, rounds)
    report = Report(
        "A namespace",
        f"{rounds} daemons, each with {number} namespaces of a topic with six partitions, made one after the other "
        "by POST /v1/namespaces over one connection, until the answer, then removed; 20 before them do not count. "
        "CPU time and growth of the resident set are the daemon's, from before the first to after the last. Beside "
        "it the start of a daemon of one's own, from its process to its ready line, in turn.",
        ["what", "median (lowest to highest)"],
    )
    middle = median(made)
    ratios = [middle / start for start in starts]
    report.rows += [
        [f"{MADE}", Absolute(spread(made, ".2f"))],
        ["removed, ms", Absolute(spread(removed, ".2f"))],
        ["CPU of one that is made, ms", Absolute(spread(cpu_ms, ".2f"))],
        [RESIDENT, spread(resident_kib, ".0f")],
        ["a daemon's start, ms", Absolute(spread(starts, ".0f"))],
        [TO_DAEMON, spread(ratios, ".4f")],
    ]
    report.figures = {MADE: middle, RESIDENT: median(resident_kib), TO_DAEMON: median(ratios)}
    return report
