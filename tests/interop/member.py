"""A running driver: a process, its events, and its current partitions."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO, Any

from tests.interop.build import CHECKOUT

Partition = tuple[str, int]
Event = dict[str, Any]

HANG_S = 60
KEPT_STDERR_LINES = 2000
LINES_IN_A_REPORT = 400


class Board:
    """Where the members of one test put their events; a test waits here until they make a condition true."""

    def __init__(self) -> None:
        """Start with no members."""
        self.changed = threading.Condition()
        self.members: list[Member] = []
        self.broker_report: Callable[[], str] = str

    def wait(self, what: str, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Return once `condition` holds, looking after every event; or fail with a report."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or any(member.broke for member in self.members):
                    break
                self.changed.wait(left)
            else:
                return
        raise AssertionError(f"waited for {what}\n{self.report()}")

    def report(self) -> str:
        """Return the events and output of the members and the broker, for a failure message."""
        return "\n".join([*(member.report() for member in self.members), self.broker_report()])


class Member:
    """One driver process."""

    def __init__(self, board: Board, name: str, command: list[str]) -> None:
        """Start the process in a process group of its own."""
        self.name = name
        self.events: list[Event] = []
        self.owned: set[Partition] = set()
        self.assignments = 0
        self.broke = False
        self._board = board
        self._ending = False
        self._stderr: list[str] = []
        self._process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        board.members.append(self)
        for reader in self._readers:
            reader.start()

    def _read_events(self, lines: IO[str]) -> None:
        for line in lines:
            event: Event = json.loads(line)
            event["at"] = time.monotonic()
            with self._board.changed:
                self._take(event)
                self._board.changed.notify_all()
        with self._board.changed:
            self.broke = not self._ending
            self.owned = set()
            self._board.changed.notify_all()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        partitions = {(topic, partition) for topic, partition in event.get("partitions", ())}
        match event["event"]:
            case "assigned":
                self.owned = partitions
                self.assignments += 1
            case "revoked" | "lost":
                self.owned -= partitions
            case "closed":
                self._ending = True

    def _read_stderr(self, lines: IO[str]) -> None:
        for line in lines:
            self._stderr.append(line.rstrip("\n"))
            del self._stderr[:-KEPT_STDERR_LINES]

    def of(self, kind: str) -> list[Event]:
        """Return the events of one kind, oldest first."""
        return [event for event in self.events if event["event"] == kind]

    def losses(self, since: int = 0) -> list[Event]:
        """Return the events "revoked" and "lost" after the first `since` events, oldest first."""
        return [event for event in self.events[since:] if event["event"] in ("revoked", "lost")]

    def given_up(self, since: int = 0) -> set[Partition]:
        """Return the partitions that were revoked or lost after the first `since` events."""
        return {
            (topic, partition) for event in self.losses(since) for topic, partition in event["partitions"]
        }

    def records(self) -> list[tuple[str, int, int]]:
        """Return (topic, partition, offset) of the delivered records, in order."""
        return [(event["topic"], event["partition"], event["offset"]) for event in self.of("record")]

    def say(self, command: str) -> None:
        """Give the driver a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def commit(self) -> bool:
        """Commit the delivered records. Return whether the client reports a success."""
        accepted = len(self.of("committed"))
        before = accepted + len(self.of("error"))
        self.say("commit")
        self._board.wait(
            f"{self.name} to commit", lambda: len(self.of("committed")) + len(self.of("error")) > before
        )
        return len(self.of("committed")) > accepted

    def leave(self) -> None:
        """Close the client cleanly and wait for its process to end with 0."""
        self._ending = True
        self.say("leave")
        self._board.wait(f"{self.name} to close", lambda: bool(self.of("closed")))
        code = self._process.wait(HANG_S)
        assert code == 0, self.report()

    def finish(self, timeout_s: float) -> None:
        """Wait for a process that ends by itself (a producer)."""
        self._ending = True
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not finish in {timeout_s} s\n{self.report()}") from None
        for reader in self._readers:
            reader.join(HANG_S)

    def kill(self) -> None:
        """Send SIGKILL: the sockets close without a LeaveGroup."""
        self._ending = True
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(HANG_S)
        with self._board.changed:
            self.owned = set()

    def stop(self) -> None:
        """SIGSTOP, as a long pause of its machine: nothing of it runs, its sockets stay open."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT: the process continues as if no time had passed."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def dispose(self) -> None:
        """End the process in any state, and release its pipes."""
        self.kill()
        for reader in self._readers:
            reader.join(HANG_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def report(self) -> str:
        """Return the events and output of this member, for a failure message."""
        first = self.events[0]["at"] if self.events else 0.0
        events = [event for event in self.events if event["event"] != "record"]
        lines = [f"--- {self.name}: owns {sorted(self.owned)}, {len(self.of('record'))} records"]
        for event in events[-LINES_IN_A_REPORT:]:
            shown = {key: value for key, value in event.items() if key != "at"}
            lines.append(f"  {event['at'] - first:7.3f} {json.dumps(shown)}")
        lines += [f"  stderr: {line}" for line in self._stderr[-LINES_IN_A_REPORT:]]
        return "\n".join(lines)


def covered(members: Iterable[Member], partitions: set[Partition]) -> bool:
    """Return whether these members own every partition exactly once and no member is idle."""
    owned = [member.owned for member in members]
    return all(owned) and sum(map(len, owned)) == len(partitions) and set().union(*owned) == partitions
