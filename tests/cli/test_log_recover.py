"""`groupd log recover`, and other commands before it, after a loss of power.

The test kills a daemon under commits. Then it cuts the segments back to the part that may have been on the
disk. The journal has the rest, because groupd synced it before each response.
"""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.partitioner import partition_for
from storage.batch import walk_batches
from storage.data_directory import CLEAN_MARKER
from storage.files import OsFiles
from storage.offset_checkpoint import RECOVERY_POINTS, read_offsets
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client, serving
from tests.cli.log_directory import ORDERS, json_lines, log, segments, write_data_directory
from tests.crash.load import commit
from tests.crash.process import Process

PARTITIONS = 3
GROUPS = [f"group-{number}" for number in range(6)]
LOGS = sorted({TopicPartition("__consumer_offsets", partition_for(group, PARTITIONS)) for group in GROUPS})
ROUNDS = 8
OPTIONS = ("--topic", "orders:3", "-o", f"offsets.topic.num.partitions={PARTITIONS}", "--profile", "test")


async def commit_all(port: int, offset: int) -> None:
    """Every group commits as often as there are rounds, the last time the offset."""
    async with Client(port=port) as client:
        for number in range(ROUNDS):
            for group in GROUPS:
                answer = await client.call(commit(group, offset + number - ROUNDS + 1), 8)
                assert {part.error_code for topic in answer.topics for part in topic.partitions} == {0}


async def _leave_killed(path: Path) -> None:
    """Make a data directory: stop its first daemon cleanly, and kill the second one after many commits."""
    for end in ("stop", "kill"):
        process = await Process.start(path / "data", path / "log", OPTIONS)
        try:
            await process.ready()
            await commit_all(process.port, 99)
            if end == "stop":
                process.terminate()
                assert await process.ended() == 0
        finally:
            await process.kill()


@pytest.fixture(scope="module")
def left_by_kill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a daemon that was killed, to be copied."""
    path = tmp_path_factory.mktemp("killed")
    asyncio.run(_leave_killed(path))
    return path / "data"


@pytest.fixture
def data(left_by_kill: Path, tmp_path: Path) -> Path:
    """The data directory of a daemon that was killed."""
    return Path(shutil.copytree(left_by_kill, tmp_path / "data"))


def lose_power(data: Path, share: float = 1.0) -> None:
    """Cut a share of the unsynced bytes from every log."""
    points = read_offsets(OsFiles(), f"{data}/{RECOVERY_POINTS}")
    for name in LOGS:
        segment = segments(data, name)[-1]
        starts = [
            position
            for position, header in walk_batches(segment.read_bytes())
            if header.base_offset >= points.get(name, 0)
        ]
        assert len(starts) >= ROUNDS
        # In the middle of a batch, where not all goes.
        os.truncate(segment, starts[int(len(starts) * (1 - share))] + (0 if share == 1 else 20))


async def committed(data: Path) -> dict[str, int]:
    """Return the offsets of partition 0 in a new daemon, by group."""
    async with serving(data) as server, Client(server) as client:
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS]
        )
        answer = await client.call(request, 9)
    return {
        group.group_id: part.committed_offset
        for group in answer.groups
        for topic in group.topics
        for part in topic.partitions
        if part.partition_index == 0
    }


def whole_logs(data: Path) -> dict[TopicPartition, list[bytes]]:
    return {name: [path.read_bytes() for path in segments(data, name)] for name in LOGS}


@pytest.mark.parametrize("share", [1.0, 0.5])
async def test_acknowledged_records_survive_a_power_cut(data: Path, share: float) -> None:
    before = whole_logs(data)
    lose_power(data, share)
    assert whole_logs(data) != before
    done = log("recover", data)
    assert done.exit_code == 0, done.output
    assert f"{LOGS[0]}" in done.stdout
    assert "taken from the journal" in done.stdout
    assert whole_logs(data) == before
    assert not (data / "journal").exists()
    assert (data / CLEAN_MARKER).exists()
    assert log("verify", data).exit_code == 0
    again = log("recover", data)
    assert again.exit_code == 0
    assert "taken" not in again.stdout
    assert await committed(data) == dict.fromkeys(GROUPS, 99)


async def test_a_daemon_that_was_killed_lacks_nothing(data: Path, tmp_path: Path) -> None:
    before = whole_logs(data)
    assert (data / "journal").is_dir()
    assert json_lines(log("verify", "--json", data))[-1]["findings"] == 0
    assert log("stats", data).stderr == ""
    copied = log("repair", "--out", tmp_path / "copy", data)
    assert copied.exit_code == 0
    assert f"{data}/journal" in copied.stderr
    assert not (tmp_path / "copy" / "journal").exists()
    assert whole_logs(tmp_path / "copy") == before
    assert log("recover", data).exit_code == 0
    assert whole_logs(data) == before


async def test_repair_reports_and_keeps_records_of_the_journal(data: Path, tmp_path: Path) -> None:
    lose_power(data, 0.5)
    points = read_offsets(OsFiles(), f"{data}/{RECOVERY_POINTS}")
    *found, _ = json_lines(log("verify", "--json", data), 1)
    lacks = {
        TopicPartition(each["topic"], each["partition"]): each for each in found if each["kind"] == "journal"
    }
    assert set(lacks) == set(LOGS)
    for name, lack in lacks.items():
        assert lack["effect"] == "taken_back"
        assert lack["offset"] > points[name]
    for command in ("dump", "stats"):
        done = log(command, data)
        assert done.exit_code == 0
        assert f"groupd log recover {data}" in done.stderr
    one = log("verify", "--json", data / str(LOGS[0]))
    assert [each["kind"] for each in json_lines(one, 1)[:-1]] == ["torn_tail", "journal"]
    before = whole_logs(data)
    for how in (["--in-place"], ["--out", tmp_path / "copy"]):
        for path in (data, data / str(LOGS[0])):
            refused = log("repair", *how, path)
            assert refused.exit_code == 2
            assert f"groupd log recover {data}" in refused.stderr
    assert not (tmp_path / "copy").exists()
    assert whole_logs(data) == before
    assert log("recover", data).exit_code == 0
    assert log("verify", data).exit_code == 0


@pytest.mark.parametrize("options", [(), ("--without-journal",)])
async def test_a_directory_in_use_is_refused_and_keeps_its_journal(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    process = await Process.start(tmp_path / "data", tmp_path / "log", OPTIONS)
    try:
        await process.ready()
        await commit_all(process.port, 50)
        refused = log("recover", *options, tmp_path / "data")
        assert refused.exit_code == 2
        assert f"in use by process {process.process_id}" in refused.stderr
        assert list((tmp_path / "data" / "journal").iterdir())
        # The daemon overwrites its journal meanwhile, so there is no finding about it.
        (tmp_path / "data" / "journal" / "strange").write_text("")
        assert log("verify", tmp_path / "data").exit_code == 0
        assert log("stats", tmp_path / "data").stderr == ""
    finally:
        await process.kill()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        refused = log("recover", path)
        assert refused.exit_code == 2
        assert refused.stderr.count("\n") == 1
        assert str(path) in refused.stderr
    assert not list(tmp_path.iterdir())


def test_after_a_clean_stop_there_is_nothing_to_do(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {ORDERS: [[Record(-1, 1000, b"k", b"v")]]})
    before = sorted(path.name for path in tmp_path.iterdir())
    done = log("recover", tmp_path)
    assert done.exit_code == 0
    assert done.stdout.count("\n") == 1
    assert set(before) <= {path.name for path in tmp_path.iterdir()}


async def test_a_damaged_journal_stops_recovery_and_start_until_it_is_given_up(
    data: Path, tmp_path: Path
) -> None:
    lose_power(data, 0.5)
    (journal,) = (data / "journal").iterdir()
    contents = bytearray(journal.read_bytes())
    contents[60] ^= 1
    journal.write_bytes(contents)
    before = whole_logs(data)
    refused = log("recover", data)
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert f"{journal}: byte " in refused.stderr
    process = await Process.start(data, tmp_path / "log", OPTIONS)
    assert await process.ended() != 0
    assert f"{journal}: byte " in process.log()
    assert "--without-journal" in process.log()
    assert "Traceback" not in process.log()
    damage = [each for each in json_lines(log("verify", "--json", data), 1) if each.get("kind") == "journal"]
    assert [(each["effect"], each["path"], each["topic"]) for each in damage] == [
        ("stops_start", str(journal), None)
    ]
    stats = log("stats", data)
    assert str(journal) in stats.stderr
    assert whole_logs(data) == before
    done = log("recover", "--without-journal", data)
    assert done.exit_code == 0, done.output
    assert not (data / "journal").exists()
    # What the segments had is there, and nothing but that.
    offsets = await committed(data)
    assert set(offsets) == set(GROUPS)
    assert any(offset < 99 for offset in offsets.values())


async def test_a_log_that_cannot_be_opened_keeps_the_journal(data: Path) -> None:
    lose_power(data)
    segment = segments(data, LOGS[0])[0]
    contents = bytearray(segment.read_bytes())
    contents[40] ^= 1
    segment.write_bytes(contents)
    done = log("recover", data)
    assert done.exit_code == 1
    assert str(LOGS[0]) in done.stderr
    assert (data / "journal").is_dir()
    assert not (data / CLEAN_MARKER).exists()
    # Repair makes do without the damaged batch, and then the journal goes where it belongs.
    assert log("repair", "--in-place", data / str(LOGS[0])).exit_code == 0
    assert log("recover", data).exit_code == 0
    assert not (data / "journal").exists()
    assert await committed(data) == dict.fromkeys(GROUPS, 99)
