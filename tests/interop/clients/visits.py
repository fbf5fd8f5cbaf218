"""The visits of the client programs of the matrix (`tests/interop/matrix`), one program for each stock client.

A program reads cells from standard input, one a line, as `key=value` separated by tabs. It runs `AT_ONCE` cells
at a time, prints a JSON object on one line for each completed cell, and ends after the last one. Keys of a cell:

- `name`, `bootstrap`, `protocol` (a value of security.protocol);
- `mechanism`, `user`, `password`, with SASL;
- `authority`: PEM file of the trusted authority; `certificate`, `key`, `certificate_and_key`: the client's files;
- `form`, `key_store`, `trust_store`, `store_password`: stores instead of these files, for Java only;
- `topic`, `group`, `refused_topic`, `refused_group`;
- `visit`, one of:

`login`: request the topic's metadata, and stop if the broker rejects the login.
`work`: write a record to `topic`; read until this record as a member of `group`, and commit; write a record to
`refused_topic`; read `topic` as a member of `refused_group`.
`stay`: write a record to `topic` and read it as a member of `group`; continue for STAY_S seconds with a record
every PAUSE_S seconds; commit.

The result has `cell`, its name, and for each step "" after a success, else the client's name and text of the
error. The steps are `login`, `produce`, `consume`, `commit`, `refused_topic`, `refused_group`; a failure of one
of the first four ends the visit. The result of `stay` has `sent`, `acknowledged`, `read` (counts), `errors` (a
list of reported errors) and `commit`, or only `login` after a failed login. A record that is read twice counts
once: a client that lost all its connections rejoins and reads from the last committed offset.
"""

import concurrent.futures
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

AT_ONCE: Final = 8
STEP_S: Final = 60.0
"""For a step."""
STAY_S: Final = 7.0
PAUSE_S: Final = 0.1
CATCH_UP_S: Final = 60.0
"""The time to read the remaining records after that."""

Cell = dict[str, str]
Answer = dict[str, Any]


class Producer(Protocol):
    """One that writes."""

    def send(self, topic: str, value: str) -> Callable[[], object]:
        """Start to send a record. Return a function that waits for the result and raises the client's error."""

    def close(self) -> None:
        """Ends it."""


class Member(Protocol):
    """A member of a group that reads a topic from its beginning."""

    def poll(self, timeout_s: float) -> list[str]:
        """Values of records, none where none came in time; raises the client's error."""

    def commit(self) -> None:
        """Commit the positions of the polled records; raises the client's error."""

    def close(self) -> None:
        """Leaves."""


class Client(Protocol):
    """A client library; all of these raise its errors."""

    def login(self, cell: Cell) -> None: ...

    def producer(self, cell: Cell) -> Producer:
        """One that writes."""

    def member(self, cell: Cell, group: str) -> Member:
        """One that reads."""


def run(client: Client) -> None:
    """Run all cells of standard input."""
    visits = {"login": _login, "work": _work, "stay": _stay}
    printing = threading.Lock()

    def visit(cell: Cell) -> None:
        answer: Answer = {}
        failed = _said(lambda: answer.update(visits[cell["visit"]](client, cell)))
        if failed:
            answer["login"] = failed
        line = json.dumps({"cell": cell["name"], **answer})
        with printing:
            print(line, flush=True)

    cells = [dict(word.split("=", 1) for word in line.rstrip("\n").split("\t")) for line in sys.stdin]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(visit, cells):
            pass


def _said(action: Callable[[], object]) -> str:
    """Run an action. Return the client's name and text of its error, or ""."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 the answer is what a client raises, whatever that is
        return f"{type(error).__name__}: {error}"
    return ""


def _login(client: Client, cell: Cell) -> Answer:
    return {"login": _said(lambda: client.login(cell))}


def _work(client: Client, cell: Cell) -> Answer:
    topic, name = cell["topic"], cell["name"]
    with (
        contextlib.closing(client.producer(cell)) as producer,
        contextlib.closing(client.member(cell, cell["group"])) as reader,
    ):

        def join_refused() -> None:
            with contextlib.closing(client.member(cell, cell["refused_group"])) as member:
                _read_until(member, name)

        answer: Answer = {"login": ""}
        steps: dict[str, Callable[[], object]] = {
            "produce": lambda: producer.send(topic, name)(),
            "consume": lambda: _read_until(reader, name),
            "commit": reader.commit,
        }
        for step, action in steps.items():
            answer[step] = _said(action)
            if answer[step]:
                return answer
        answer["refused_topic"] = _said(lambda: producer.send(cell["refused_topic"], name)())
        answer["refused_group"] = _said(join_refused)
    return answer


def _read_until(member: Member, value: str) -> None:
    deadline = time.monotonic() + STEP_S
    while time.monotonic() < deadline:
        if value in member.poll(PAUSE_S):
            return
    raise TimeoutError(f"{value} was not read in {STEP_S:g} s")


def _stay(client: Client, cell: Cell) -> Answer:
    sent: list[Callable[[], object]] = []
    errors: list[str] = []
    read: set[str] = set()
    producer, member = client.producer(cell), client.member(cell, cell["group"])

    def poll() -> None:
        read.update(value for value in member.poll(PAUSE_S) if value.startswith(cell["name"]))

    first = f"first of {cell['name']}"
    producer.send(cell["topic"], first)()
    _read_until(member, first)
    end = time.monotonic() + STAY_S
    while time.monotonic() < end:
        sent.append(producer.send(cell["topic"], f"{cell['name']} {len(sent)}"))
        errors.append(_said(poll))
    while len(read) < len(sent) and time.monotonic() < end + CATCH_UP_S:
        errors.append(_said(poll))
    written = [_said(acknowledged) for acknowledged in sent]
    answer = {
        "sent": len(sent),
        "acknowledged": written.count(""),
        "read": len(read),
        "commit": _said(member.commit),
    }
    member.close()
    producer.close()
    return {**answer, "errors": [error for error in (*errors, *written) if error]}
