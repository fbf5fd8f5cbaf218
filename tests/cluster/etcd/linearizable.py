"""Porcupine decides whether the clients' view of committed offsets is linearizable.

A check on increasing numbers detects stale reads with one writer. This check allows several writers of one offset,
but no number may be written twice. The outcome of some commits is unknown, and Porcupine would have to try every
time for them. A number that no fetch returned may have been committed last of all, so it is left out. A number that
a fetch returned was committed before that fetch got its response.

A stock client retries by itself with any broker when its coordinator is gone. A value that the old coordinator had
written, and that was read and overwritten, may then come back. So a long commit of such a client may take effect
several times between its begin and its end.
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
REPEATED_AFTER_MS: Final = 100
"""A client that asks again waits so long before, at least."""
_CHECK_S: Final = 300


class Operation(NamedTuple):
    """One commit or fetch of one client.

    A commit with unknown outcome has no end: it may have taken effect at any time since its begin, or never.
    """

    key: str
    client: int
    kind: str
    value: int
    begin: int
    """In nanoseconds, as `end`."""
    end: int | None
    is_repeated: bool = False
    """Whether its client asks again by itself."""


class Operations:
    """What clients of any thread did."""

    def __init__(self) -> None:
        self._all: list[Operation] = []
        self._clients = itertools.count()
        self._lock = threading.Lock()

    def client(self) -> int:
        """A number for one more."""
        return next(self._clients)

    def happened(
        self, key: str, client: int, kind: str, value: int, begin: int, *, is_repeated: bool = False
    ) -> None:
        """What began at a time of `now_ns`, and is answered now."""
        self._add(Operation(key, client, kind, value, begin, now_ns(), is_repeated))

    def may_happen(self, key: str, client: int, value: int, begin: int, *, is_repeated: bool = False) -> None:
        """Add a commit with an unknown outcome."""
        self._add(Operation(key, client, COMMIT, value, begin, None, is_repeated))

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


def as_lines(operations: Iterable[Operation]) -> str:
    """JSON, a line for each."""
    return "".join(f"{json.dumps(one._asdict())}\n" for one in operations)


def verdicts(operations: Iterable[Operation]) -> dict[str, str]:
    """By key: OK, Illegal, or Unknown where a minute was not enough. Raises CannotBuild."""
    lines = as_lines(_that_count(list(operations)))
    done = subprocess.run(
        checker(), input=lines, capture_output=True, text=True, check=True, timeout=_CHECK_S
    )
    return {said["key"]: said["verdict"] for said in map(json.loads, done.stdout.splitlines())}


def _that_count(operations: list[Operation]) -> Iterator[Operation]:
    """Yield each relevant operation with an end, repeated as often as its effect was observed."""
    by_key: dict[str, list[Operation]] = {}
    for one in operations:
        by_key.setdefault(one.key, []).append(one)
    for of_key in by_key.values():
        numbers = Counter(one.value for one in of_key if one.kind == COMMIT)
        assert not numbers or max(numbers.values()) == 1, "a number is committed once"
        for one in of_key:
            yield from _commits(one, of_key) if one.kind == COMMIT else (one,)


def _commits(one: Operation, of_key: list[Operation]) -> Iterator[Operation]:
    """What a commit was seen to be."""
    seen = _times_seen(one.value, of_key)
    if one.end is None:
        ends = seen
    else:
        is_asked_again = one.is_repeated and one.end - one.begin >= REPEATED_AFTER_MS * 1_000_000
        ends = [min(one.end, end) for end in seen] if is_asked_again and len(seen) > 1 else [one.end]
    for end in ends if one.is_repeated else ends[:1]:
        yield one._replace(end=end)


def _times_seen(value: int, of_key: list[Operation]) -> list[int]:
    """By when a number was there for certain, at first, and again each time after another one was."""
    ended = sorted((one.end, one.begin, one.value, one.kind) for one in of_key if one.end is not None)
    times: list[int] = []
    since, is_wanted = -1, True
    for end, begin, found, kind in ended:
        is_it = found == value
        if begin <= since or is_it != is_wanted or (is_it and kind == COMMIT):
            continue
        if is_wanted:
            times.append(end)
        since, is_wanted = end, not is_wanted
    return times
