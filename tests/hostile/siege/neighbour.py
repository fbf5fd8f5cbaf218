"""`python -m tests.hostile.siege.neighbour PORT PROCESS_ID`: a member that sends heartbeats until its input ends.

It prints `ready` once its group is stable. For each line of input, and at the end of the input, it prints a report
as JSON and begins to measure anew:

sent            heartbeats since the last report
worst_ms        by how much the latest answer came after it was due, without the time in which the daemon or the
                neighbour could have run and the system let others run: a daemon that works waits longer for a busy
                machine than one that is idle
worst_cpu_ms    how much of such a wait can be work of the daemon: the CPU time of its threads, at most the wait

An error answer, or a missing one, ends it with an error.
"""

import contextlib
import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kafka_log.connection import Connection

PACE_S: Final = 0.02
SESSION_TIMEOUT_MS: Final = 60_000
"""So long that a daemon that stands still is seen by how late it answers."""
GROUP: Final = "neighbours"


def join(connection: Connection) -> HeartbeatRequest:
    """Makes a group of one; the heartbeat of its member."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    joined = connection.call(request, 3)
    assert joined.error_code == ErrorCode.NONE, joined
    member_id = joined.member_id
    plan = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
    sync = SyncGroupRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=member_id, assignments=plan
    )
    synced = connection.call(sync, 3)
    assert synced.error_code == ErrorCode.NONE, synced
    return HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=member_id)


class SchedulerAccount:
    """Linux's account of the threads of the daemon and of this process: CPU time, and waits for a processor."""

    def __init__(self, daemon_id: int) -> None:
        self._daemon_id = daemon_id
        self._account = self._read()

    def measure_s(self) -> tuple[float, float]:
        """Return the CPU time of the daemon and the waits of both, in seconds since the last call, all threads
        together; zeros where the system keeps no account."""
        before, self._account = self._account, self._read()
        cpu_ns = waited_ns = 0
        for path, (ran_ns, queued_ns) in self._account.items():
            ran_before_ns, queued_before_ns = before.get(path, (0, 0))
            waited_ns += queued_ns - queued_before_ns
            if path.parts[2] == str(self._daemon_id):
                cpu_ns += ran_ns - ran_before_ns
        return cpu_ns / 1e9, waited_ns / 1e9

    def _read(self) -> dict[Path, tuple[int, int]]:
        account = {}
        for process_id in (self._daemon_id, os.getpid()):
            for path in Path(f"/proc/{process_id}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):  # the thread has just ended
                    ran_ns, queued_ns, _ = path.read_text().split()
                    account[path] = (int(ran_ns), int(queued_ns))
        return account


def beat(connection: Connection, heartbeat: HeartbeatRequest, account: SchedulerAccount) -> None:
    """Send heartbeats until the input ends; print a report after the heartbeat that follows a line of input."""
    sent, worst_s, worst_cpu_s = 0, 0.0, 0.0
    due_s, is_over = time.monotonic(), False
    while not is_over:
        is_due = select.select([sys.stdin], [], [], max(0.0, due_s - time.monotonic()))[0] == []
        is_over = not is_due and not sys.stdin.readline()
        answer = connection.call(heartbeat, 3)
        assert answer.error_code == ErrorCode.NONE, answer
        now_s = time.monotonic()
        cpu_s, queued_s = account.measure_s()
        wait_s = now_s - min(due_s, now_s) - queued_s
        worst_s = max(worst_s, wait_s)
        worst_cpu_s = max(worst_cpu_s, min(wait_s, cpu_s))
        sent += 1
        due_s = max(due_s + PACE_S, now_s)
        if not is_due:
            report = {
                "sent": sent,
                "worst_ms": round(worst_s * 1000, 1),
                "worst_cpu_ms": round(worst_cpu_s * 1000, 1),
            }
            print(json.dumps(report), flush=True)
            sent, worst_s, worst_cpu_s = 0, 0.0, 0.0


def main() -> None:
    """Be a neighbour."""
    with Connection(f"127.0.0.1:{sys.argv[1]}", "neighbour") as connection:
        heartbeat = join(connection)
        print("ready", flush=True)
        beat(connection, heartbeat, SchedulerAccount(int(sys.argv[2])))


if __name__ == "__main__":
    main()
