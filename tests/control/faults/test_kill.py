"""A daemon that ends itself at the points where a crash matters: what was acknowledged is there afterwards, and
what was written but not acknowledged is there exactly where the point says so."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.errors import ErrorCode
from tests.control.faults.faulty_daemon import VARIABLE
from tests.crash.process import Process
from tests.server.harness import Client
from tests.server.test_runtime import code, commit, committed

OPTIONS = (
    "--topic",
    "orders:1",
    "--profile",
    "test",
    "-o",
    "offsets.topic.num.partitions=1",
    "-o",
    "control.enable=true",
)
SURVIVORS = 5
"""Commits that are acknowledged before the one that meets the fault."""


async def crashed(tmp_path: Path, do: dict[str, Any], options: tuple[str, ...] = ()) -> int:
    """Commits 1 to 5, then 6, at which the daemon ends; what is committed after a restart."""
    rule = {"match": {"api": "OffsetCommit", "group": "g"}, "skip": SURVIVORS, "do": do}
    data, log = tmp_path / "data", tmp_path / "log"
    daemon = await Process.start(
        data,
        log,
        (*OPTIONS, *options),
        module="tests.control.faults.faulty_daemon",
        variables={VARIABLE: msgspec.json.encode([rule]).decode()},
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
    after = await Process.start(data, log, (*OPTIONS, *options))
    try:
        await after.ready()
        async with Client(port=after.port) as client:
            assert await committed(client, "other") == SURVIVORS
            return await committed(client)
    finally:
        after.terminate()
        await after.ended()


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
    options = () if journal else ("-o", "log.journal.file.bytes=0")
    async with asyncio.timeout(110):
        assert await crashed(tmp_path, {**do, "crash": "process"}, options) == found


@pytest.mark.parametrize(("at", "found"), [("before_append", SURVIVORS), ("after_append", SURVIVORS + 1)])
async def test_without_syncs_the_kernel_keeps_what_it_was_given(tmp_path: Path, at: str, found: int) -> None:
    do = {"at": at, "crash": "process"}
    assert await crashed(tmp_path, do, ("-o", "log.flush=os")) == found
