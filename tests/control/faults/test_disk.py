"""A disk that refuses or is late for one batch, and partitions that crash, as clients see it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem
from coordinator.core.interceptors import InterceptorRank
from coordinator.group.group_shard import ShardDecorator
from coordinator.runtime import partition_driver
from coordinator.runtime.worker_threads import WorkerThreads
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving, settings, start
from tests.broker.test_group_partitions import active, code, commit, committed
from tests.control.faults.conftest import ONE_PARTITION
from tests.control.faults.lab import Lab
from tests.storage.faulty_files import FaultyFiles

DATA = "/data"
COMMITS = {"api": "OffsetCommit", "group": "g"}


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_driver, "RETRY_S", 0.01)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
async def server(files: FaultyFiles) -> AsyncIterator[Server]:
    server = await start(settings(DATA, ONE_PARTITION, topics=[("orders", 1)], files=files))
    yield server
    await server.close()


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("torn_bytes", [None, 1, 30, 100_000])
async def test_an_append_that_fails(
    lab: Lab, error: str, torn_bytes: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is refused as today, the partition read again, and nothing of the batch is there."""
    caplog.set_level(logging.INFO)
    do: dict[str, Any] = {"at": "append", "fail": error}
    name = lab.fault(COMMITS, name="bad-disk", do=do | ({"torn_bytes": torn_bytes} if torn_bytes else {}))
    async with Client(lab.server) as client:
        assert code(await client.call(commit(1, group="other"), 2)) == ErrorCode.NONE
        assert code(await client.call(commit(1), 2)) == ErrorCode.NOT_COORDINATOR
        await active(lab.server)
        assert await committed(client) == -1
        assert await committed(client, "other") == 1
        assert code(await client.call(commit(2), 2)) == ErrorCode.NONE
        assert await committed(client) == 2
    assert lab.status(name).hit == 1
    assert any("Unloading" in record.getMessage() for record in caplog.records)
    assert lab.is_plain() is False
    lab.faults.remove_all()
    await lab.until_plain()


async def test_recovery_cuts_a_torn_append(
    lab: Lab, files: FaultyFiles, caplog: pytest.LogCaptureFixture
) -> None:
    lab.fault(COMMITS, do={"at": "append", "fail": "EIO", "torn_bytes": 20})
    async with Client(lab.server) as client:
        assert code(await client.call(commit(1, group="other"), 2)) == ErrorCode.NONE
        await client.call(commit(1), 2)
        await active(lab.server)
        assert await committed(client, "other") == 1
    assert any("20 bytes" in record.getMessage() for record in caplog.records), caplog.text


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
async def test_a_sync_that_fails(lab: Lab, error: str) -> None:
    """The content of the disk is unknown: the commit is not acknowledged, and may exist."""
    lab.fault(COMMITS, do={"at": "sync", "fail": error})
    async with Client(lab.server) as client:
        assert code(await client.call(commit(1, group="other"), 2)) == ErrorCode.NONE
        assert code(await client.call(commit(1), 2)) == ErrorCode.NOT_COORDINATOR
        await active(lab.server)
        assert await committed(client) in (-1, 1)
        assert await committed(client, "other") == 1
        assert code(await client.call(commit(2), 2)) == ErrorCode.NONE
    lab.faults.remove_all()
    await lab.until_plain()


@pytest.mark.parametrize("at", ["append", "sync"])
async def test_a_slow_disk(lab: Lab, at: str) -> None:
    """Answers that wait for the disk are late, heartbeats are not; removing the fault ends the wait."""
    name = lab.fault(COMMITS, times=2, do={"at": at, "delay": 20})
    async with Client(lab.server) as client, Client(lab.server) as other:
        started = asyncio.get_running_loop().time()
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE
        assert asyncio.get_running_loop().time() - started >= 0.02
        lab.faults.remove_fault(name)
        name = lab.fault(COMMITS, do={"at": at, "delay": "10m"})
        client.send(commit(2), 2)
        client.send(commit(3), 2)
        await lab.hit(name)
        beat = await other.call(heartbeat_request("nobody", "m", 1), 0)
        assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        lab.faults.remove_fault(name)
        assert code(await client.receive()) == ErrorCode.NONE
        assert code(await client.receive()) == ErrorCode.NONE
        assert await committed(client) == 3
    await lab.until_plain()


async def test_a_delayed_append_stays_delayed_when_an_interceptor_is_registered(lab: Lab) -> None:
    """A frozen clock or a recording puts the same machine behind one more interceptor."""
    partition = lab.server.runtime.partitions[0]
    name = lab.fault(COMMITS, do={"at": "append", "delay": "10m"})
    async with Client(lab.server) as client, Client(lab.server) as other:
        assert partition.log is not None
        end = partition.log.log_end_offset
        client.send(commit(1), 2)
        await lab.hit(name)
        partition.interceptors.add(InterceptorRank.ORACLES, ShardDecorator)
        client.send(commit(2), 2)
        await other.call(heartbeat_request("nobody", "m", 1), 0)
        assert partition.log.log_end_offset == end
        lab.faults.remove_fault(name)
        assert code(await client.receive()) == ErrorCode.NONE
        assert code(await client.receive()) == ErrorCode.NONE
        partition.interceptors.remove(ShardDecorator)
    await lab.until_plain()


@pytest.mark.parametrize("at", ["append", "sync"])
async def test_a_slow_disk_is_over_when_the_time_of_the_fault_is(lab: Lab, at: str) -> None:
    lab.fault(COMMITS, do={"at": at, "delay": "10m"}, **{"for": "30ms"})
    async with Client(lab.server) as client:
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE
    lab.faults.remove_all()
    await lab.until_plain()


@pytest.mark.parametrize("at", ["append", "sync"])
async def test_the_partition_moves_while_the_disk_is_slow(lab: Lab, at: str) -> None:
    # Delayed appends of the lost partition delay no other request; the sync is that of the disk.
    name = lab.fault(COMMITS, do={"at": at, "delay": "10m" if at == "append" else 30})
    async with Client(lab.server) as client:
        client.send(commit(1), 2)
        await lab.hit(name)
        await lab.control.failover.failover_partition(0, 0, 0)
        assert code(await client.receive()) == ErrorCode.NOT_COORDINATOR
        assert code(await client.call(commit(2), 2)) == ErrorCode.NONE
        assert await committed(client) == 2
    lab.faults.remove_all()
    await lab.until_plain()


@pytest.mark.parametrize(
    ("at", "found"), [("before_append", -1), ("after_append", -1), ("after_sync", 1), ("before_answer", 1)]
)
async def test_a_crash_of_a_partition(lab: Lab, at: str, found: int) -> None:
    """Waiting clients are disconnected without a response. Durable records exist, and the server continues."""
    async with Client(lab.server) as waiting, Client(lab.server) as client, Client(lab.server) as other:
        await join_alone(other, "audit")
        waiting.send(join_request("audit"), 3)
        name = lab.fault(COMMITS, do={"at": at, "crash": "partition"})
        client.send(commit(1), 2)
        await lab.hit(name)
        assert await client.closed()
        assert await waiting.closed()
        await active(lab.server)
        assert await committed(other) == found
        assert code(await other.call(commit(2), 2)) == ErrorCode.NONE
        assert await committed(other) == 2
    lab.faults.remove_all()
    await lab.until_plain()


@pytest.mark.parametrize("at", ["before_append", "append", "after_append", "sync", "after_sync"])
async def test_disk_faults_match_only_appends_of_requests(lab: Lab, at: str) -> None:
    """A commit that is refused writes nothing, so that nothing happens; nor do commits of other groups."""
    do = {"at": at, "fail": "EIO"} if at in ("append", "sync") else {"at": at, "crash": "partition"}
    name = lab.fault(COMMITS, do=do)
    async with Client(lab.server) as client:
        assert code(await client.call(commit(1, member_id="nobody", generation_id=3), 2)) != ErrorCode.NONE
        assert code(await client.call(commit(1, group="other"), 2)) == ErrorCode.NONE
        assert lab.status(name).hit == 0


async def test_a_disk_fault_of_a_lost_batch_does_not_hit_another(lab: Lab) -> None:
    slow = lab.fault({"api": "OffsetCommit", "group": "slow"}, do={"at": "sync", "delay": "10m"})
    bad = lab.fault({"api": "OffsetCommit", "group": "bad"}, do={"at": "sync", "fail": "EIO"})
    async with Client(lab.server) as first, Client(lab.server) as second, Client(lab.server) as client:
        first.send(commit(1, group="slow"), 2)
        await lab.hit(slow)
        second.send(commit(1, group="bad"), 2)
        await lab.hit(bad)
        await lab.control.failover.failover_partition(0, 0, 0)
        lab.faults.remove_fault(slow)
        for offset in range(1, 5):
            assert code(await client.call(commit(offset), 2)) == ErrorCode.NONE
    lab.faults.remove_all()


async def test_without_syncs_no_answer_waits_for_one() -> None:
    async with serving(DATA, {"log.flush": "os"}, files=FaultyFiles()) as server:
        lab = Lab(server, ControlPlane(server))
        with pytest.raises(Problem, match=r"log\.flush=os"):
            lab.fault(COMMITS, do={"at": "after_sync", "crash": "partition"})
        lab.fault(COMMITS, do={"at": "append", "fail": "EIO"})
        async with Client(server) as client:
            assert code(await client.call(commit(1), 2)) == ErrorCode.NOT_COORDINATOR
        lab.control.close()


@pytest.mark.parametrize("at", ["append", "sync"])
async def test_nothing_acknowledged_is_lost_through_faults_at_random(
    lab: Lab, at: str, files: FaultyFiles
) -> None:
    """This holds for later readers and after a power cut."""
    lab.fault(COMMITS, times=None, probability=0.3, seed=5, do={"at": at, "fail": "EIO"})
    acknowledged = 0
    async with Client(lab.server) as client:
        for offset in range(1, 40):
            if code(await client.call(commit(offset), 2)) == ErrorCode.NONE:
                acknowledged = offset
            else:
                await active(lab.server)
            assert acknowledged <= max(0, await committed(client)) <= offset
    assert acknowledged > 10
    async with serving(DATA, ONE_PARTITION, topics=(), files=files.crash()) as after, Client(after) as client:
        assert await committed(client) >= acknowledged


async def test_servers_that_share_a_flusher_keep_separate_faults(files: FaultyFiles) -> None:
    threads = WorkerThreads()
    async with AsyncExitStack() as stack:
        stack.callback(threads.close)
        labs = []
        for number in range(2):
            how = settings(f"{DATA}-{number}", ONE_PARTITION, topics=[("orders", 1)], files=files)
            server = open_server(how, threads=threads)
            await server.listen()
            stack.push_async_callback(server.close)
            await server.ready.wait()
            control = ControlPlane(server)
            stack.callback(control.close)
            labs.append(Lab(server, control))
        one, other = labs
        clients = [await stack.enter_async_context(Client(lab.server)) for lab in labs]
        for lab in labs:
            lab.fault(COMMITS, name="late", times=2, do={"at": "append", "delay": 50})
            lab.fault(COMMITS, name="bad", times=2, do={"at": "sync", "fail": "EIO"})
        clients[0].send(commit(1), 2)
        await one.hit("late")
        other.faults.remove_fault("late")
        assert code(await clients[1].call(commit(1), 2)) == ErrorCode.NOT_COORDINATOR
        assert code(await clients[0].receive()) == ErrorCode.NOT_COORDINATOR
        for lab in labs:
            lab.faults.remove_all()
            await active(lab.server)
        assert not threads.flusher.sync_interceptors
