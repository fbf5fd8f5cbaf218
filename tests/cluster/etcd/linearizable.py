"""Whether what clients saw of committed offsets could have happened one after the other: Porcupine decides.

A check that knows that numbers only grow sees a stale answer of one writer. This one lets several write one offset
at a time; only, none writes a number that was written before. For nobody says of some commits what became of them,
and Porcupine would have to try all times at which they may have happened. But a number that no fetch gave may have
been committed last of all, and does not count; one that a fetch gave was committed before that had its answer.
"""

import itertools
import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tests.interop import build

SOURCES: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "porcupine")
COMMIT: Final = "commit"
FETCH: Final = "fetch"
OK: Final = "Ok"
_CHECK_S: Final = 300


class Operation(NamedTuple):
    """One commit or fetch, of one client. A commit without an end may have happened at any time since its begin, or
    never: nobody said."""

    key: str
    client: int
    kind: str
    value: int
    begin: int
    """In nanoseconds, as `end`."""
    end: int | None


class Operations:
    """What clients of any thread did."""

    def __init__(self) -> None:
        self._all: list[Operation] = []
        self._clients = itertools.count()
        self._lock = threading.Lock()

    def client(self) -> int:
        """A number for one more."""
        return next(self._clients)

    def happened(self, key: str, client: int, kind: str, value: int, begin: int) -> None:
        """What began at a time of `now_ns`, and is answered now."""
        self._add(Operation(key, client, kind, value, begin, now_ns()))

    def may_happen(self, key: str, client: int, value: int, begin: int) -> None:
        """A commit that began then, and of which nobody says what became of it."""
        self._add(Operation(key, client, COMMIT, value, begin, None))

    def __iter__(self) -> Iterator[Operation]:
        with self._lock:
            return iter(list(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def _add(self, operation: Operation) -> None:
        with self._lock:
            self._all.append(operation)


def now_ns() -> int:
    """Of the clock of operations."""
    return time.monotonic_ns()


def checker() -> list[str]:
    """The command that checks. Raises CannotBuild."""
    go = build.tool("go")
    sources = [os.path.join(SOURCES, name) for name in ("main.go", "go.mod", "go.sum")]
    compile_ = [go, "build", "-trimpath", "-o", "checker", "."]
    return [
        os.path.join(build.once("porcupine", sources, lambda fresh: build.run(compile_, fresh)), "checker")
    ]


def verdicts(operations: Iterable[Operation]) -> dict[str, str]:
    """By key: OK, Illegal, or Unknown where a minute was not enough. Raises CannotBuild."""
    lines = "".join(f"{json.dumps(one._asdict())}\n" for one in _ended(list(operations)))
    done = subprocess.run(
        checker(), input=lines, capture_output=True, text=True, check=True, timeout=_CHECK_S
    )
    return {said["key"]: said["verdict"] for said in map(json.loads, done.stdout.splitlines())}


def _ended(operations: list[Operation]) -> Iterator[Operation]:
    """All that count, each with an end."""
    numbers = Counter((one.key, one.value) for one in operations if one.kind == COMMIT)
    assert not numbers or max(numbers.values()) == 1, "a number is committed once"
    seen: dict[tuple[str, int], int] = {}
    for one in operations:
        if one.kind == FETCH and one.end is not None:
            place = one.key, one.value
            seen[place] = min(seen.get(place, one.end), one.end)
    for one in operations:
        end = seen.get((one.key, one.value)) if one.end is None else one.end
        if end is not None:
            yield one._replace(end=end)
