"""`python -m tests.hostile.siege.neighbour PORT PROCESS_ID`: a member that sends heartbeats until its input ends.

It prints `ready` once its group is stable, and at the end, as JSON, how many heartbeats it sent, and by how much
the latest answer came after it was due (milliseconds), without the time in which the daemon or the neighbour could
have run and the system let others run: a daemon that works waits longer for a busy machine than one that is idle.
An answer that does not come at all, or that says anything but that all is well, ends it with an error.
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


class Queue:
    """How long processes have waited for a processor, by Linux's account of each of their threads."""

    def __init__(self, *process_ids: int) -> None:
        self._process_ids = process_ids
        self._waited_ns = self._read()

    def since_s(self) -> float:
        """The time since the last call, in seconds, all threads together; 0 where the system keeps no account."""
        before, self._waited_ns = self._waited_ns, self._read()
        return sum(now - before.get(thread, 0) for thread, now in self._waited_ns.items()) / 1e9

    def _read(self) -> dict[Path, int]:
        waited_ns = {}
        for process_id in self._process_ids:
            for path in Path(f"/proc/{process_id}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):  # the thread has just ended
                    waited_ns[path] = int(path.read_text().split()[1])
        return waited_ns


def beat(connection: Connection, heartbeat: HeartbeatRequest, queue: Queue) -> tuple[int, float]:
    """Sends heartbeats until the input ends; how many, and how late the latest answer was, in seconds."""
    sent, worst_s = 0, 0.0
    due_s = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due_s - time.monotonic()))[0]:
        answer = connection.call(heartbeat, 3)
        assert answer.error_code == ErrorCode.NONE, answer
        now_s = time.monotonic()
        worst_s = max(worst_s, now_s - due_s - queue.since_s())
        sent += 1
        due_s = max(due_s + PACE_S, now_s)
    return sent, worst_s


def main() -> None:
    """Be a neighbour."""
    with Connection(f"127.0.0.1:{sys.argv[1]}", "neighbour") as connection:
        heartbeat = join(connection)
        print("ready", flush=True)
        sent, worst_s = beat(connection, heartbeat, Queue(int(sys.argv[2]), os.getpid()))
    print(json.dumps({"sent": sent, "worst_ms": round(worst_s * 1000, 1)}), flush=True)


if __name__ == "__main__":
    main()
