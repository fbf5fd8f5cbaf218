"""`groupd log verify` and `groupd log repair`, on logs that a daemon then has to load, or had to refuse."""

import asyncio
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.cli.output_streams import EXIT_INTERRUPTED
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.partitioner import partition_for
from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from storage.batch import read_header, walk_batches
from storage.record import Record
from storage.repair.repair_copy import RepairCopy
from storage.topic_partition import TopicPartition
from tests.apis.test_offsets import commit
from tests.broker.harness import Client, serving
from tests.cli.log_directory import (
    OFFSETS,
    ORDERS,
    SMALL_SEGMENTS,
    fact,
    flip,
    json_lines,
    log,
    segments,
    write_data_directory,
)
from tests.cli.test_serve import TIMEOUT_S, clean_environment
from tests.kafka_log.fixture import NAMES, unpack

GROUP = "readers"
PARTITIONS = 3
LOG = TopicPartition("__consumer_offsets", partition_for(GROUP, PARTITIONS))


async def write_commits(path: Path, count: int = 5) -> None:
    """A daemon's directory with that many commits of one group, each a batch of its own."""
    async with serving(path) as server, Client(server) as client:
        for number in range(count):
            assert (await client.call(commit({"orders": [number % 3]}, group=GROUP), 8)).topics


async def committed(path: Path) -> tuple[PartitionState, dict[int, int]]:
    """Start a daemon on the directory; return the state of the group's partition, and its offsets by partition."""
    async with serving(path) as server, Client(server) as client:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (group,) = (await client.call(request, 9)).groups
        offsets = {
            part.partition_index: part.committed_offset for topic in group.topics for part in topic.partitions
        }
        return state_of(server), offsets


def state_of(server: Server) -> PartitionState:
    return server.runtime.partitions[LOG.partition].state


def without_state(path: Path) -> None:
    """A start then has to read the log."""
    for state in path.glob("*/*.state"):
        state.unlink()


def starts(segment: Path) -> list[int]:
    """Where the batches of a segment begin."""
    return [position for position, _ in walk_batches(segment.read_bytes())]


def findings(path: Path, exit_code: int) -> list[dict[str, Any]]:
    *found, summary = json_lines(log("verify", "--json", path), exit_code)
    assert summary["type"] == "summary"
    assert summary["findings"] == len(found)
    return found


async def test_damage_that_stops_a_load_is_found_repaired_and_loaded_again(tmp_path: Path) -> None:
    await write_commits(tmp_path)
    without_state(tmp_path)
    assert findings(tmp_path, 0) == []
    (segment,) = segments(tmp_path, LOG)
    damaged_at = starts(segment)[1]
    flip(segment, damaged_at + 40)
    (found,) = findings(tmp_path, 1)
    assert (found["kind"], found["effect"]) == ("damaged_batch", "stops_load")
    assert (found["path"], found["position"], found["offset"]) == (str(segment), damaged_at, 1)
    shutil.copytree(tmp_path, tmp_path.with_name("before"))
    assert (await committed(tmp_path.with_name("before")))[0] is PartitionState.FAILED
    lines = json_lines(log("repair", "--json", "--in-place", tmp_path))
    (loss,) = [line for line in lines if line["type"] == "loss"]
    assert (loss["position"], loss["first_offset"], loss["end_offset"]) == (damaged_at, 1, 2)
    assert findings(tmp_path, 0) == []
    # The commit for partition 1 came again later; nothing else was lost.
    assert await committed(tmp_path) == (PartitionState.OWNED, {0: 10, 1: 11, 2: 12})
    assert segment.with_name(segment.name + ".damaged").exists()


async def test_a_lost_tail_stops_the_start_until_a_repair(tmp_path: Path) -> None:
    await write_commits(tmp_path, 3)
    without_state(tmp_path)
    (segment,) = segments(tmp_path, LOG)
    segment.write_bytes(segment.read_bytes()[:-5])
    assert {(found["kind"], found["effect"]) for found in findings(tmp_path, 1)} >= {
        ("torn_tail", "stops_load")
    }
    copy = tmp_path.with_name("copy")
    assert log("repair", "--out", copy, tmp_path).exit_code == 0
    assert await committed(copy) == (PartitionState.OWNED, {0: 10, 1: 11})
    # The original is as it was.
    assert (await committed(tmp_path))[0] is PartitionState.FAILED


async def test_a_state_that_knows_more_than_the_repaired_log_is_not_believed(tmp_path: Path) -> None:
    await write_commits(tmp_path, 6)
    (segment,) = segments(tmp_path, LOG)
    for position in starts(segment)[2::3]:
        flip(segment, position + 40)
    assert log("repair", "--in-place", tmp_path / str(LOG)).exit_code == 0
    assert await committed(tmp_path) == (PartitionState.OWNED, {0: 10, 1: 11})


async def test_nothing_is_repaired_under_a_running_daemon(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        for path in (tmp_path, tmp_path / str(LOG)):
            refused = log("repair", "--in-place", path)
            assert refused.exit_code == 2
            assert str(tmp_path) in refused.stderr
        assert (await client.call(commit({"orders": [0]}, group=GROUP), 8)).topics
        # Reading does not change it.
        assert findings(tmp_path, 0) == []
        (line,) = json_lines(log("dump", "--json", "--group", GROUP, tmp_path))
        assert line["value"]["offset"] == 10
        (stats,) = json_lines(log("stats", "--json", tmp_path))
        assert [group["group"] for group in stats["groups"]] == [GROUP]


async def test_reading_beside_a_daemon_that_writes_finds_nothing_wrong(tmp_path: Path) -> None:
    properties = {"offsets.topic.segment.bytes": "20000", "log.flush": "os"}

    async def write(server: Server) -> int:
        written = 0
        async with Client(server, "busy") as client:
            while not is_done.is_set():
                for _ in range(20):
                    client.send(commit({"orders": [0, 1, 2]}, group=GROUP), 8)
                for _ in range(20):
                    assert (await client.receive()).topics
                written += 20
        return written

    async with serving(tmp_path, properties) as server:
        is_done = asyncio.Event()
        writing = asyncio.create_task(write(server))
        try:
            for command in ("verify", "dump", "stats"):
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *("-m", "coordinator", "log", command, "--json", str(tmp_path)),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=clean_environment(),
                )
                found, said = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
                assert (command, process.returncode, said) == (command, 0, b""), found.decode()
        finally:
            is_done.set()
            written = await writing
    lines = json_lines(log("dump", "--json", "--group", GROUP, tmp_path))
    assert len(lines) == 3 * written
    assert len(segments(tmp_path, LOG)) > 1


def test_an_unfinished_compaction_is_finished_by_a_repair(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: commits(60)}, SMALL_SEGMENTS)
    first, second, *_ = segments(tmp_path)
    before = log("dump", "--json", tmp_path).stdout.count("\n")
    first.with_name(first.name + ".swap").write_bytes(first.read_bytes() + second.read_bytes())
    first.unlink()
    copy = tmp_path.with_name("copy-of-it")
    assert log("repair", "--out", copy, tmp_path).exit_code == 0
    assert log("repair", "--in-place", tmp_path).exit_code == 0
    for path in (tmp_path, copy):
        assert findings(path, 0) == []
        assert [line["offset"] for line in json_lines(log("dump", "--json", path))] == list(range(before))
        assert not list(path.glob("*/*.swap"))


def commits(count: int) -> list[list[Record]]:
    return [
        [
            fact(
                OffsetCommitKey(group="g", topic="t", partition=number),
                OffsetCommitValue(offset=number, metadata="", commit_timestamp=1),
            )
        ]
        for number in range(count)
    ]


async def test_records_that_stop_a_load_are_dropped_on_request(tmp_path: Path) -> None:
    await write_commits(tmp_path, 2)
    without_state(tmp_path)
    bad = Record(-1, 5, b"\0\1\0\x63short", b"\0\3")
    good = fact(
        OffsetCommitKey(group=GROUP, topic="orders", partition=2),
        OffsetCommitValue(offset=77, metadata="", commit_timestamp=1 << 60),
    )
    write_data_directory(tmp_path, {LOG: [[bad, good]]})
    assert (await committed(tmp_path))[0] is PartitionState.FAILED
    (found,) = findings(tmp_path, 1)
    assert (found["kind"], found["effect"], found["offset"]) == ("undecodable_record", "stops_load", 2)
    assert log("repair", "--in-place", tmp_path).exit_code == 0
    assert len(findings(tmp_path, 1)) == 1
    assert log("repair", "--in-place", "--drop-undecodable", tmp_path).exit_code == 0
    assert findings(tmp_path, 0) == []
    assert await committed(tmp_path) == (PartitionState.OWNED, {0: 10, 1: 11, 2: 77})


@pytest.mark.parametrize("name", NAMES)
def test_the_directories_of_a_broker_are_sound(name: str, tmp_path: Path) -> None:
    unpack(name, str(tmp_path))
    assert findings(tmp_path, 0) == []


def test_a_copy_of_the_directory_of_a_broker_says_the_same(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    unpack("compacted", str(data))
    lines = json_lines(log("repair", "--json", "--out", copy, data))
    assert {line["losses"] for line in lines} == {0}
    assert findings(copy, 0) == []
    assert log("dump", "--json", copy).stdout == log("dump", "--json", data).stdout


def test_a_copy_of_secrets_is_as_private_as_they_were(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    write_data_directory(data, {OFFSETS: commits(1)}, SMALL_SEGMENTS)
    (data / "security.json").write_text("{}")
    assert log("repair", "--out", copy, data).exit_code == 0
    assert (copy / "security.json").read_text() == "{}"
    assert stat.S_IMODE((copy / "security.json").stat().st_mode) == 0o600


def test_every_place_of_damage_in_a_partition_is_found_and_left_out(tmp_path: Path) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: commits(60), ORDERS: commits(2)}, SMALL_SEGMENTS)
    paths = segments(tmp_path / "data")
    assert len(paths) > 3
    lost = set()
    for segment in (paths[0], paths[1], paths[-1]):
        for position in (starts(segment)[0], starts(segment)[-1]):
            lost.add(read_header(segment.read_bytes(), position).base_offset)
            flip(segment, position + 30)
    found = findings(tmp_path / "data" / str(OFFSETS), 1)
    assert {one["offset"] for one in found if one["position"] is not None} == lost
    # The last batch is gone, so that the log ends before the offset up to which it was synced.
    assert [one["kind"] for one in found if one["position"] is None] == ["recovery_point"]
    copy = tmp_path / "copy"
    *losses, summary = json_lines(log("repair", "--json", tmp_path / "data" / str(OFFSETS), "--out", copy))
    assert {loss["first_offset"] for loss in losses} == lost
    assert summary["lost_bytes"] == sum(loss["length_bytes"] for loss in losses)
    kept = json_lines(log("dump", "--json", copy))
    assert [line["offset"] for line in kept] == [number for number in range(60) if number not in lost]
    assert all(line["value"]["offset"] == line["offset"] for line in kept)


def test_one_segment_can_be_copied_but_not_repaired_where_it_is(tmp_path: Path) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: commits(3)})
    (segment,) = segments(tmp_path / "data")
    flip(segment, starts(segment)[1] + 30)
    before = segment.read_bytes()
    assert log("repair", "--in-place", segment).exit_code == 2
    assert log("repair", "--out", tmp_path / "copy", segment).exit_code == 0
    assert segment.read_bytes() == before
    lines = json_lines(log("dump", "--json", "--offsets-decoder", tmp_path / "copy" / segment.name))
    assert [line["offset"] for line in lines] == [0, 2]


@pytest.mark.parametrize("path", ["data", f"data/{OFFSETS}"])
def test_a_copy_that_is_interrupted_is_simply_made_again(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: commits(60), ORDERS: commits(2)}, SMALL_SEGMENTS)
    copy = tmp_path / "copy"
    with monkeypatch.context() as patch:
        patch.setattr(RepairCopy, "finish", interrupt)
        assert log("repair", "--out", copy, tmp_path / path).exit_code == EXIT_INTERRUPTED
    assert list(copy.iterdir())
    # What is not part of the second copy must not be left of the first.
    (copy / str(OFFSETS) / f"{7:020d}.log").write_bytes(b"half of a batch")
    assert log("repair", "--out", copy, tmp_path / path).exit_code == 0
    assert findings(copy, 0) == []
    assert len(json_lines(log("dump", "--json", copy / str(OFFSETS)))) == 60
    assert log("repair", "--out", copy, tmp_path / path).exit_code == 2


def interrupt(*_: object, **__: object) -> list[str]:
    raise KeyboardInterrupt


def test_a_target_that_holds_something_or_lies_inside_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_data_directory(data, {OFFSETS: commits(2)})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("mine")
    for target in (
        tmp_path / "full",
        tmp_path / "full" / "precious",
        data / "inside",
        data / str(OFFSETS) / "in",
    ):
        refused = log("repair", "--out", target, data)
        assert refused.exit_code == 2
        assert str(target) in refused.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["precious"]
    assert not (data / "inside").exists()


@pytest.mark.parametrize("options", [[], ["--in-place", "--out", "somewhere"]])
def test_repair_requires_a_mode(tmp_path: Path, options: list[str]) -> None:
    write_data_directory(tmp_path, {OFFSETS: commits(1)})
    assert log("repair", *options, tmp_path).exit_code == 2


def test_repair_releases_the_lock_of_the_directory(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: commits(1)})
    assert log("repair", "--in-place", tmp_path).exit_code == 0
    assert log("repair", "--in-place", tmp_path).exit_code == 0
    write_data_directory(tmp_path, {OFFSETS: [[fact(GroupMetadataKey(group="g"), None)]]})
    assert len(json_lines(log("dump", "--json", tmp_path))) == 2


def test_repair_of_another_directory_is_refused(tmp_path: Path) -> None:
    refused = log("repair", "--out", tmp_path / "copy", tmp_path / "missing")
    assert refused.exit_code == 2
    assert not (tmp_path / "copy").exists()


def test_the_form_for_people_names_file_and_position(tmp_path: Path) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: commits(3)})
    (segment,) = segments(tmp_path / "data")
    position = starts(segment)[1]
    flip(segment, position + 30)
    for result in (
        log("verify", tmp_path / "data"),
        log("repair", tmp_path / "data", "--out", tmp_path / "copy"),
    ):
        assert str(segment) in result.stdout
        assert str(position) in result.stdout
