"""Recovery as clients and operators see it: torn tails, damage, partitions that take long, stops in between."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.broker.server import Server
from coordinator.broker.server_view import ServerView
from coordinator.http.http_service import create_application
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from storage.files import OsFile, OsFiles
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving, settings, start
from tests.broker.test_group_partitions import ONE_PARTITION, code, commit, committed, fetch

GROUPS = [f"group-{number}" for number in range(12)]
CLEAN_MARKER = ".kafka_cleanshutdown"


async def commit_everywhere(server: Server, rounds: int = 1) -> None:
    """A few commits of groups in all partitions; the last one is 5."""
    async with Client(server) as client:
        for number in range(6 - rounds, 6):
            for group in GROUPS:
                assert code(await client.call(commit(number, group=group), 2)) == ErrorCode.NONE


def log_of(data_dir: Path, number: int) -> Path:
    return data_dir / f"__consumer_offsets-{number}" / f"{0:020d}.log"


async def ready_page(server: Server) -> tuple[int, str]:
    async with TestClient(TestServer(create_application(ServerView(server)))) as http:
        answer = await http.get("/ready")
        return answer.status, await answer.text()


async def metric(server: Server, line: str) -> str:
    """The value of one line of the metrics."""
    async with TestClient(TestServer(create_application(ServerView(server)))) as http:
        text = await (await http.get("/metrics")).text()
    return next(found.removeprefix(line).strip() for found in text.splitlines() if found.startswith(line))


class SlowFiles(OsFiles):
    """A disk on which the files of one directory open when they are let."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_asked = threading.Event()
        self.may_open = threading.Event()

    def open_append(self, path: str) -> OsFile:
        if f"/{self.name}/" in path:
            self.is_asked.set()
            assert self.may_open.wait(60)
        return super().open_append(path)


@contextmanager
def slow(partition: int) -> Iterator[SlowFiles]:
    files = SlowFiles(f"__consumer_offsets-{partition}")
    try:
        yield files
    finally:
        files.may_open.set()


async def test_a_torn_tail_is_cut_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = await start(settings(tmp_path, ONE_PARTITION, topics=[("orders", 1)]))
    await commit_everywhere(server)
    server.abandon()
    with log_of(tmp_path, 0).open("ab") as log:
        log.write(b"torn" * 10)
    size = log_of(tmp_path, 0).stat().st_size
    caplog.set_level(logging.WARNING)
    async with serving(tmp_path, ONE_PARTITION, topics=()) as server, Client(server) as client:
        assert [await committed(client, group) for group in GROUPS] == [5] * len(GROUPS)
        assert log_of(tmp_path, 0).stat().st_size == size - 40
    (line,) = [record.getMessage() for record in caplog.records if "cut" in record.getMessage()]
    assert "40 bytes" in line
    assert str(log_of(tmp_path, 0)) in line
    assert f"byte {size - 40}" in line


@pytest.mark.parametrize("was_clean", [True, False])
async def test_damage_before_the_recovery_point(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, was_clean: bool
) -> None:
    async with serving(tmp_path) as server:
        await commit_everywhere(server)
        damaged = server.runtime.find_partition(GROUPS[0]).number
    if not was_clean:
        (tmp_path / CLEAN_MARKER).unlink()
    whole = log_of(tmp_path, damaged).read_bytes()
    broken = bytearray(whole)
    broken[100] ^= 0x40
    log_of(tmp_path, damaged).write_bytes(broken)
    caplog.set_level(logging.INFO)
    async with serving(tmp_path, topics=()) as server, Client(server) as client:
        assert server.runtime.partitions[damaged].state is PartitionState.FAILED
        for group in GROUPS:
            answer = await client.call(fetch(group), 5)
            is_hit = server.runtime.find_partition(group).number == damaged
            assert answer.error_code == (ErrorCode.NOT_COORDINATOR if is_hit else ErrorCode.NONE)
            wanted = ErrorCode.NOT_COORDINATOR if is_hit else ErrorCode.NONE
            assert code(await client.call(commit(6, group=group), 2)) == wanted
        status, page = await ready_page(server)
        assert status == 200
        assert f"__consumer_offsets-{damaged}" in page
        assert await metric(server, 'groupd_partitions{state="failed"}') == "1.0"
    (line,) = [record.getMessage() for record in caplog.records if "Failed to load" in record.getMessage()]
    for part in (str(log_of(tmp_path, damaged)), "byte 0", "groupd log verify", "groupd log repair"):
        assert part in line
    # Nothing was cut, and the next start looks as closely.
    assert log_of(tmp_path, damaged).read_bytes() == bytes(broken)
    assert not (tmp_path / CLEAN_MARKER).exists()
    log_of(tmp_path, damaged).write_bytes(whole)
    async with serving(tmp_path, topics=()) as server, Client(server) as client:
        offsets = {group: await committed(client, group) for group in GROUPS}
        hit = [group for group in GROUPS if server.runtime.find_partition(group).number == damaged]
        assert offsets == {group: 5 if group in hit else 6 for group in GROUPS}


async def test_a_clean_stop_leaves_a_marker_and_a_running_daemon_none(tmp_path: Path) -> None:
    async with serving(tmp_path):
        assert not (tmp_path / CLEAN_MARKER).exists()
    assert (tmp_path / CLEAN_MARKER).exists()
    server = await start(settings(tmp_path))
    server.abandon()
    assert not (tmp_path / CLEAN_MARKER).exists()


@pytest.mark.parametrize("was_clean", [True, False])
async def test_while_one_partition_takes_long_the_others_are_served(tmp_path: Path, was_clean: bool) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        await commit_everywhere(server)
        slow_one = server.runtime.find_partition(GROUPS[0])
        member_id, generation_id = await join_alone(client, GROUPS[0])
    if not was_clean:
        (tmp_path / CLEAN_MARKER).unlink()
    with slow(slow_one.number) as files:
        server = await start(settings(tmp_path, files=files), wait=False)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        before = [part for part in server.runtime.partitions if part.number < slow_one.number]
        async with Client(server) as client:
            # An early client finds the cluster and its coordinator, and gets a retriable error for groups.
            assert (await client.call(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE
            assert [topic.name for topic in (await client.call(MetadataRequest(topics=None), 1)).topics]
            found = await client.call(FindCoordinatorRequest(key=GROUPS[0]), 0)
            assert (found.error_code, found.port) == (ErrorCode.NONE, server.endpoints[0].port)
            assert (await client.call(join_request(GROUPS[0]), 3)).error_code == loading
            assert (await client.call(fetch(GROUPS[0]), 5)).error_code == loading
            assert code(await client.call(commit(6, group=GROUPS[0]), 2)) == loading
            assert (await client.call(ListGroupsRequest(), 0)).error_code == loading
            beat = heartbeat_request(GROUPS[0], member_id, generation_id)
            assert (await client.call(beat, 3)).error_code == ErrorCode.NONE
            for group in GROUPS:
                if server.runtime.find_partition(group) in before:
                    while (await client.call(fetch(group), 5)).error_code == loading:
                        pass
                    assert await committed(client, group) == 5
            assert not server.ready.is_set()
            assert (await ready_page(server))[0] == 503
            files.may_open.set()
            await server.ready.wait()
            assert [await committed(client, group) for group in GROUPS] == [5] * len(GROUPS)
            assert (await client.call(beat, 3)).error_code == ErrorCode.NONE
        await server.close()


async def test_a_stop_while_a_partition_is_still_being_opened(tmp_path: Path) -> None:
    """A partition that was not checked does not count as intact.

    the stop is unclean, and the next start checks it.
    """
    async with serving(tmp_path) as server:
        await commit_everywhere(server)
    with slow(0) as files:
        server = await start(settings(tmp_path, files=files), wait=False)
        assert await asyncio.to_thread(files.is_asked.wait, 10)
        async with Client(server) as client:
            closing = asyncio.create_task(server.close())
            stopped = ErrorCode.COORDINATOR_NOT_AVAILABLE
            while (await client.call(ListGroupsRequest(), 0)).error_code != stopped:
                pass
        files.may_open.set()
        await closing
    assert not (tmp_path / CLEAN_MARKER).exists()
    async with serving(tmp_path, topics=()) as server, Client(server) as client:
        assert [await committed(client, group) for group in GROUPS] == [5] * len(GROUPS)
