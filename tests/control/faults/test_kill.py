"""A daemon that ends itself at the points where a crash matters. Acknowledged commits survive; a commit that was
written and not acknowledged survives exactly at the points that come after the write.

The daemon that crashes is a process. The server that recovers its data directory runs in the process of the test.
"""

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.error_codes import ErrorCode
from tests.broker.harness import Client, serving
from tests.broker.test_group_partitions import ONE_PARTITION, code, commit, committed
from tests.control.faults.faulty_daemon import VARIABLE
from tests.crash.process import Process

SURVIVORS = 5
"""Commits that are acknowledged before the one that meets the fault."""


async def crashed(tmp_path: Path, do: dict[str, Any], **more: str) -> int:
    """Commit 1 to 5, then 6, at which the daemon ends. Return the committed offset after a restart.

    `more` are properties of both, with underscores for dots.
    """
    properties = ONE_PARTITION | {name.replace("_", "."): value for name, value in more.items()}
    options = [part for name, value in properties.items() for part in ("-o", f"{name}={value}")]
    rule = {"match": {"api": "OffsetCommit", "group": "g"}, "skip": SURVIVORS, "do": do}
    data = tmp_path / "data"
    daemon = await Process.start(
        data,
        tmp_path / "log",
        ("--topic", "orders:1", "--profile", "test", "-o", "control.enable=true", *options),
        module="tests.control.faults.faulty_daemon",
        variables={VARIABLE: msgspec.json.encode([rule]).decode()},
        is_forked=True,
    )
    try:
        await daemon.ready()
        async with Client(port=daemon.port) as client, Client(port=daemon.port) as other:
            for offset in range(1, SURVIVORS + 1):
                assert code(await client.call(commit(offset), 2)) == ErrorCode.NONE
                assert code(await other.call(commit(offset, group="other"), 2)) == ErrorCode.NONE
            client.send(commit(SURVIVORS + 1), 2)
            assert await client.closed()
        assert await daemon.ended() == -signal.SIGKILL
    finally:
        await daemon.kill()
    async with serving(data, properties, topics=[("orders", 1)]) as after, Client(after) as client:
        assert await committed(client, "other") == SURVIVORS
        return await committed(client)


@pytest.mark.parametrize(
    ("do", "found"),
    [
        ({"at": "before_append"}, SURVIVORS),
        ({"at": "before_append", "torn_bytes": 40}, SURVIVORS),
        ({"at": "after_append"}, SURVIVORS + 1),
        ({"at": "after_sync"}, SURVIVORS + 1),
        ({"at": "before_answer"}, SURVIVORS + 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("journal", [True, False], ids=["journal", "segments"])
async def test_the_process_ends_there(tmp_path: Path, do: dict[str, Any], found: int, journal: bool) -> None:
    more = {} if journal else {"log_journal_file_bytes": "0"}
    async with asyncio.timeout(110):
        assert await crashed(tmp_path, {**do, "crash": "process"}, **more) == found


@pytest.mark.parametrize(("at", "found"), [("before_append", SURVIVORS), ("after_append", SURVIVORS + 1)])
async def test_without_syncs_written_records_survive_a_kill(tmp_path: Path, at: str, found: int) -> None:
    do = {"at": at, "crash": "process"}
    assert await crashed(tmp_path, do, log_flush="os") == found
