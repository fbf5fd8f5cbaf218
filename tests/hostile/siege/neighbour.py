"""`python -m tests.hostile.siege.neighbour PORT`: a member that sends heartbeats until its input ends.

It prints `ready` once its group is stable, and at the end, as JSON, how many heartbeats it sent, and by how much
the latest answer came after it was due (milliseconds). An answer that does not come at all, or that says anything
but that all is well, ends it with an error.
"""

import json
import select
import sys
import time
from typing import Final

from protocol.errors import ErrorCode
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


def beat(connection: Connection, heartbeat: HeartbeatRequest) -> tuple[int, float]:
    """Sends heartbeats until the input ends; how many, and how late the latest answer was, in seconds."""
    sent, worst_s = 0, 0.0
    due_s = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due_s - time.monotonic()))[0]:
        answer = connection.call(heartbeat, 3)
        assert answer.error_code == ErrorCode.NONE, answer
        now_s = time.monotonic()
        worst_s = max(worst_s, now_s - due_s)
        sent += 1
        due_s = max(due_s + PACE_S, now_s)
    return sent, worst_s


def main() -> None:
    """Be a neighbour."""
    with Connection(f"127.0.0.1:{sys.argv[1]}", "neighbour") as connection:
        heartbeat = join(connection)
        print("ready", flush=True)
        sent, worst_s = beat(connection, heartbeat)
    print(json.dumps({"sent": sent, "worst_ms": round(worst_s * 1000, 1)}), flush=True)


if __name__ == "__main__":
    main()
