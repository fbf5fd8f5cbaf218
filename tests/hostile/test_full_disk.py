"""A full disk: commits fail, everything else continues, and a daemon starts on it."""

import asyncio
import errno
import logging
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from coordinator.broker.server import Server
from coordinator.broker.server_view import ServerView
from coordinator.config.listeners import Address
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.core.message_text import StartFailed
from coordinator.http.http_access import ControlAccess, HttpLimits
from coordinator.http.http_server import HttpServer
from coordinator.network.listening_socket import HTTP_OPTION, bind_sockets
from coordinator.runtime.partition_driver import TRIAL_BYTES
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving, settings, start
from tests.broker.test_group_partitions import active, code, commit, committed, fetch, is_only_read
from tests.crash.process import Process
from tests.runtime.held_clock import HeldClock
from tests.storage.faulty_files import FaultyFile, FaultyFiles

DATA = "/data"
FOUR = {"offsets.topic.num.partitions": "4"}
GROUPS = [f"group-{number}" for number in range(12)]
COMMITS = 40
REFUSING_S = 4
"""Several attempts long."""


@asynccontextmanager
async def console(server: Server) -> AsyncIterator[str]:
    """The address of a server's HTTP port."""
    sockets = bind_sockets(Address("127.0.0.1", 0), 8, HTTP_OPTION)
    access = ControlAccess(own_host="127.0.0.1", is_loopback=True)
    limits = server.settings.config.view(HttpLimits)
    http = HttpServer(ServerView(server), LazyControlPlane(server), sockets, access, limits)
    http.start()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        http.close()


async def get(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        return answer.status, await answer.text()


def long_commit(offset: int) -> OffsetCommitRequest:
    """A commit that takes much space."""
    request = commit(offset)
    request.topics[0].partitions[0].committed_metadata = os.urandom(2000).hex()
    return request


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_offsets_are_read_while_commits_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """One client commits without a pause; another reads, a member lives on; with space everything is well."""
    caplog.set_level(logging.INFO)
    files = FaultyFiles()
    server = await start(settings(DATA, FOUR, topics=[("orders", 1)], files=files))
    async with Client(server) as client, Client(server) as member, console(server) as address:
        for group in GROUPS:
            assert code(await client.call(commit(7, group=group), 2)) == ErrorCode.NONE
        member_id, generation_id = await join_alone(member, "members")
        assert (await get(f"{address}/ready"))[0] == 200
        files.is_full = True
        for offset in range(COMMITS):
            for group in GROUPS:
                error = code(await client.call(commit(100 + offset, group=group), 2))
                assert error in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            heartbeat = await member.call(heartbeat_request("members", member_id, generation_id), 3)
            assert heartbeat.error_code == ErrorCode.NONE
            while offset == 0 and (await member.call(ListGroupsRequest(), 0)).error_code != ErrorCode.NONE:
                pass  # each partition is read again, once
            assert [await committed(member, group) for group in GROUPS] == [7] * len(GROUPS)
        listed = await client.call(ListGroupsRequest(), 0)
        assert {group.group_id for group in listed.groups} == {*GROUPS, "members"}
        (described,) = (await client.call(DescribeGroupsRequest(groups=["members"]), 0)).groups
        assert [one.member_id for one in described.members] == [member_id]
        assert (await client.call(join_request("late"), 3)).error_code == ErrorCode.NOT_COORDINATOR

        status, text = await get(f"{address}/ready")
        assert status == 503
        assert "no space left on device" in text
        assert f"{DATA}/__consumer_offsets-" in text
        _, metrics = await get(f"{address}/metrics")
        assert 'groupd_partitions{state="read-only"} 4.0' in metrics
        assert "groupd_disk_refusals_total 0.0" not in metrics
        told = errors(caplog)
        assert len(told) <= 2
        assert ".log" in told[0]
        assert "no space left on device" in told[0]

        files.is_full = False
        await active(server)
        assert (await get(f"{address}/ready"))[0] == 200
        for group in GROUPS:
            assert await committed(client, group) == 7
            assert code(await client.call(commit(8, group=group), 2)) == ErrorCode.NONE
        own = commit(9, group="members", member_id=member_id, generation_id=generation_id)
        assert code(await member.call(own, 5)) == ErrorCode.NONE
    assert len(errors(caplog)) <= 2
    server.abandon()
    async with serving(DATA, FOUR, files=files.crash(), topics=()) as after, Client(after) as client:
        assert [await committed(client, group) for group in GROUPS] == [8] * len(GROUPS)
        assert await committed(client, "members") == 9


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_offsets_are_read_while_the_disk_syncs_nothing(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Only acknowledged offsets are read. Then the partition recovers, even without writes."""
    caplog.set_level(logging.INFO)
    files = FaultyFiles()
    server = await start(settings(DATA, FOUR, topics=[("orders", 1)], files=files))
    async with Client(server) as client, Client(server) as member, console(server) as address:
        for group in GROUPS:
            assert code(await client.call(commit(7, group=group), 2)) == ErrorCode.NONE
        member_id, generation_id = await join_alone(member, "members")
        files.fail("fdatasync", error=error, times=10**9)
        loop = asyncio.get_running_loop()
        ends_s, rounds, unread = loop.time() + REFUSING_S, 0, 0
        while loop.time() < ends_s:
            for group in GROUPS:
                refused = code(await client.call(commit(100 + rounds, group=group), 2))
                assert refused in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
                answer = await member.call(fetch(group), 5)
                unread += answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                if answer.error_code == ErrorCode.NONE:
                    assert answer.topics[0].partitions[0].committed_offset == 7
            heartbeat = await member.call(heartbeat_request("members", member_id, generation_id), 3)
            assert heartbeat.error_code == ErrorCode.NONE
            rounds += 1
            await asyncio.sleep(0.1)
        assert unread <= 2 * len(GROUPS)  # while each partition was read, and not since
        (described,) = (await client.call(DescribeGroupsRequest(groups=["members"]), 0)).groups
        assert [one.member_id for one in described.members] == [member_id]
        status, text = await get(f"{address}/ready")
        assert status == 503
        assert os.strerror(error).lower() in text
        _, metrics = await get(f"{address}/metrics")
        assert 'groupd_partitions{state="read-only"} 4.0' in metrics
        assert "groupd_disk_refusals_total 0.0" not in metrics
        assert 1 <= len(errors(caplog)) <= 2
        crashed = files.crash()

        files.faults.clear()
        while (await get(f"{address}/ready"))[0] != 200:
            pass
        found = [await committed(client, group) for group in GROUPS]
        assert all(offset in (7, *range(100, 100 + rounds)) for offset in found)
        own = commit(9, group="members", member_id=member_id, generation_id=generation_id)
        assert code(await member.call(own, 5)) == ErrorCode.NONE
        for group in GROUPS:
            assert code(await client.call(commit(8, group=group), 2)) == ErrorCode.NONE
    server.abandon()
    for left, offset in ((crashed, 7), (files.crash(), 8)):
        async with serving(DATA, FOUR, files=left, topics=()) as after, Client(after) as client:
            assert [await committed(client, group) for group in GROUPS] == [offset] * len(GROUPS)


async def test_no_member_expires_while_the_disk_is_full() -> None:
    """A session that ends meanwhile is over when there is space; the partition is not read again for it."""
    files, held = FaultyFiles(), HeldClock()
    one = {"offsets.topic.num.partitions": "1"}
    async with (
        serving(DATA, one, topics=[("orders", 1)], files=files, group_clock=held) as server,
        Client(server) as client,
    ):

        async def members() -> int:
            answer = await client.call(DescribeGroupsRequest(groups=["members"]), 0)
            return len(answer.groups[0].members)

        await join_alone(client, "members")
        files.is_full = True
        assert code(await client.call(commit(1), 2)) == ErrorCode.NOT_COORDINATOR
        while not is_only_read(server):
            assert await members() in {0, 1}  # none while it is being read
        loads = len(server.runtime.lifecycle.loads)
        held.advance(60_000)
        for _ in range(20):
            assert await members() == 1
        assert len(server.runtime.lifecycle.loads) == loads
        files.is_full = False
        await active(server)
        held.advance(60_000)
        while await members():
            pass


async def test_a_disk_that_takes_a_trial_and_no_commit(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is not read again for each commit: that would be paid by the groups that only read."""
    files = FaultyFiles()
    one = {"offsets.topic.num.partitions": "1"}
    write = FaultyFile.write

    def refuse_commits(file: FaultyFile, data: bytes) -> None:
        if len(data) < TRIAL_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
        write(file, data)

    async with serving(DATA, one, topics=[("orders", 1)], files=files) as server, Client(server) as client:
        assert code(await client.call(commit(7), 2)) == ErrorCode.NONE
        loads = len(server.runtime.lifecycle.loads)
        with monkeypatch.context() as patched:
            patched.setattr(FaultyFile, "write", refuse_commits)
            for _ in range(200):
                assert code(await client.call(commit(8), 2)) != ErrorCode.NONE
            assert len(server.runtime.lifecycle.loads) - loads <= 5
            assert await committed(client) == 7
        await active(server)
        assert code(await client.call(commit(9), 2)) == ErrorCode.NONE
    assert len(errors(caplog)) <= 2


@pytest.mark.parametrize("was_clean", [True, False], ids=["after a clean stop", "after a crash"])
async def test_a_start_on_a_full_disk(was_clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Committed offsets are read, `/ready` has the reason, and commits work when there is space."""
    files = FaultyFiles()
    small = {**FOUR, "offsets.topic.segment.bytes": "1500"}
    server = await start(settings(DATA, small, topics=[("orders", 1)], files=files))
    async with Client(server) as client:
        for offset in range(20):
            for group in GROUPS:
                assert code(await client.call(commit(offset, group=group), 2)) == ErrorCode.NONE
    if was_clean:
        await server.close()
    else:
        server.abandon()
        files = files.kill()
        for path in [path for path in files.names if path.endswith(("index", "leader-epoch-checkpoint"))]:
            files.unlink(path)  # as a power cut may leave it
    files.is_full = True
    caplog.clear()
    async with (
        serving(DATA, small, topics=[("orders", 1)], files=files) as server,
        Client(server) as client,
        console(server) as address,
    ):
        assert [await committed(client, group) for group in GROUPS] == [19] * len(GROUPS)
        status, text = await get(f"{address}/ready")
        assert status == 503
        assert "no space left on device" in text
        assert code(await client.call(commit(20, group=GROUPS[0]), 2)) == ErrorCode.NOT_COORDINATOR
        assert 1 <= len(errors(caplog)) <= 2
        files.is_full = False
        await active(server)
        assert (await get(f"{address}/ready"))[0] == 200
        assert code(await client.call(commit(20, group=GROUPS[0]), 2)) == ErrorCode.NONE
    async with serving(DATA, small, topics=(), files=files.crash()) as server, Client(server) as client:
        assert [await committed(client, group) for group in GROUPS] == [20] + [19] * (len(GROUPS) - 1)


async def test_records_of_the_journal_wait_for_space(caplog: pytest.LogCaptureFixture) -> None:
    """A power cut took it from the segments, and a full disk does not take it back: no older offset is shown."""
    files = FaultyFiles()
    server = await start(settings(DATA, FOUR, topics=[("orders", 1)], files=files))
    async with Client(server) as client:
        for offset in range(20):
            for group in GROUPS:
                assert code(await client.call(commit(offset, group=group), 2)) == ErrorCode.NONE
    server.abandon()
    files = files.crash()
    files.is_full = True
    caplog.clear()
    async with serving(DATA, FOUR, files=files, topics=()) as server, Client(server) as client:
        for group in GROUPS:
            answer = await client.call(fetch(group), 5)
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert 1 <= len(errors(caplog)) <= 2
        files.is_full = False
        await active(server)
        assert [await committed(client, group) for group in GROUPS] == [19] * len(GROUPS)


@pytest.mark.parametrize(
    ("call", "nth", "error", "leaves_files"),
    [
        ("unlink", 1, errno.EROFS, True),
        ("fdatasync", 2, errno.ENOSPC, False),
        ("replace", 5, errno.EIO, False),
    ],
    ids=["half removed", "checkpoints not written", "not renamed"],
)
async def test_a_start_that_cannot_finish_a_deletion(
    call: str, nth: int, error: int, leaves_files: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A log line names the remains of a topic, and they are removed when possible. No client sees them."""
    files = FaultyFiles()
    # Nothing is synced in the background: the calls are counted.
    four = {**FOUR, "log.journal.file.bytes": "0"}
    server = await start(settings(DATA, four, topics=[("orders", 1), ("doomed", 2)], files=files))
    async with Client(server) as client:
        assert code(await client.call(commit(7), 2)) == ErrorCode.NONE
        files.fail(call, nth, error, times=10**9)
        deletion = DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=30_000)
        (deleted,) = (await client.call(deletion, 1)).responses
        assert deleted.error_code == ErrorCode.NONE
        assert len([line for line in errors(caplog) if "Deleted topics" in line]) == leaves_files
    server.abandon()
    files = files.kill()
    files.fail("unlink", error=error, times=10**9)
    files.is_full = True
    caplog.clear()
    server = await start(settings(DATA, four, files=files))
    async with Client(server) as client:
        told = [line for line in errors(caplog) if "Deleted topics" in line]
        assert len(told) == leaves_files
        assert all(f"{DATA}/" in line for line in told)
        answer = await client.call(MetadataRequest(topics=None), 9)
        assert "doomed" not in {topic.name for topic in answer.topics}
        assert await committed(client) == 7
    server.abandon()
    files = files.kill()
    caplog.clear()
    async with serving(DATA, four, topics=[("doomed", 2)], files=files) as server:
        assert server.data_plane.list_failed_partitions() == {}
        assert [topic.name for topic in server.data_plane.catalogue if topic.hosted] == ["doomed", "orders"]
    # No test waits for the threads of killed servers.
    assert not [line for line in errors(caplog) if "was never retrieved" not in line]
    assert not [name for name in files.names if name.endswith("-delete")]


async def test_a_new_directory_on_a_full_disk_is_refused() -> None:
    files = FaultyFiles()
    files.mkdir(DATA)
    files.is_full = True
    with pytest.raises(StartFailed, match=f"{DATA}.*no space left on device"):
        await start(settings(DATA, files=files))


async def test_a_limit_of_the_system_on_a_real_daemon(tmp_path: Path) -> None:
    """Simulate a full disk: no file may grow past 48 KiB until the test lifts the limit."""
    options = ("--profile", "test", "--topic", "orders:1", "-o", "offsets.topic.num.partitions=1")
    daemon = await Process.start(tmp_path / "data", tmp_path / "log", options)
    try:
        await daemon.ready()
        _, hard = resource.prlimit(daemon.process_id, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.process_id, resource.RLIMIT_FSIZE, (48 * 1024, hard))
        ready = f"http://127.0.0.1:{daemon.http_port}/ready"
        async with Client(port=daemon.port) as client:
            acknowledged = 0
            while code(await client.call(long_commit(acknowledged + 1), 2)) == ErrorCode.NONE:
                acknowledged += 1
            assert acknowledged > 5
            while (answer := await client.call(fetch(), 5)).error_code != ErrorCode.NONE:
                assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            for _ in range(20):
                assert code(await client.call(long_commit(1000), 2)) == ErrorCode.NOT_COORDINATOR
                assert await committed(client) == acknowledged
            status, text = await get(ready)
            assert (status, "file too large" in text) == (503, True)
            resource.prlimit(daemon.process_id, resource.RLIMIT_FSIZE, (hard, hard))
            while (await get(ready))[0] != 200:
                pass
            assert await committed(client) == acknowledged
            assert code(await client.call(long_commit(acknowledged + 1), 2)) == ErrorCode.NONE
        daemon.terminate()
        assert await daemon.ended() == 0
        assert daemon.log().count("ERROR") == 1
        daemon = await Process.start(tmp_path / "data", tmp_path / "log", options)
        await daemon.ready()
        async with Client(port=daemon.port) as client:
            assert await committed(client) == acknowledged + 1
    finally:
        await daemon.kill()
