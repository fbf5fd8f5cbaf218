"""The readable range of a partition, and the report of the rest."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.decode.rows import record_batch
from pipeline.decode.vectorised import Wanted
from pipeline.errors import BadInput
from pipeline.log_files import LogFiles
from pipeline.reading import MIN_TASK_BYTES, Range, pack, ranges, read_task
from pipeline.segments import LogPartition, find_partitions
from pipeline.survey import Survey, survey
from pipeline.walk import MAX_BATCH_BYTES
from protocol.partitioner import partition_for
from storage.batch import read_header
from storage.record import Record
from tests.broker.harness import Client, settings, start
from tests.broker.transactor import TOPICS, Transactor
from tests.oracle.member import commit_request
from tests.pipeline.log_directory import LogDirectory, segment_name
from tests.pipeline.random_logs import Log, compacted, logs
from tests.pipeline.test_decode import LOGS, commit_record, plain

Rows = list[dict[str, Any]]


@pytest.fixture
def made(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "data")


def look(made: LogDirectory, start: int | None = None, number: int = 7, chunk_bytes: int = 4096) -> Survey:
    files = LogFiles(made.path)
    (partition,) = (one for one in find_partitions(files) if one.number == number)
    return survey(files, partition, start, chunk_bytes)


def read(made: LogDirectory, seen: Survey, tasks: int = 2, wanted: Wanted | None = None) -> Rows:
    """What the tasks of a survey give, findings left out, by offset."""
    files = LogFiles(made.path)
    planned = pack(ranges(seen, seen.first_offset, seen.next_offset), tasks)
    rows = [
        row
        for task in planned
        for batch in read_task(files, task, wanted or Wanted())
        for row in batch.to_pylist()
    ]
    return sorted((row for row in rows if row["kind"] != "finding"), key=lambda row: int(row["log_offset"]))


def simple_log(batches: int, records: int = 2) -> Log:
    log = Log()
    for number in range(batches):
        log.append([commit_record("g", 100 * number + n) for n in range(records)])
    return log


def kinds(seen: Survey) -> list[str]:
    return [finding.kind for finding in (*seen.findings, *seen.passing)]


@hypothesis_settings(max_examples=LOGS)
@given(logs(), st.integers(1, 4), st.integers(1, 5), st.data())
def test_all_of_a_log_is_read_from_any_offset(
    tmp_path_factory: pytest.TempPathFactory, log: Log, per_segment: int, tasks: int, data: st.DataObject
) -> None:
    made = LogDirectory(tmp_path_factory.mktemp("log"))
    made.write_log(7, log, per_segment=per_segment)
    boundaries = [read_header(batch).base_offset for batch in log.batches]
    start = data.draw(st.none() | st.sampled_from([*boundaries, log.next_offset]))
    seen = look(made, start)
    assert (seen.next_offset, kinds(seen)) == (log.next_offset, [])
    expected = [row for row in plain(log.data)[0] if row["log_offset"] >= (start or 0)]
    assert read(made, seen, tasks) == expected


@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
def test_a_large_log_is_read_in_as_many_tasks_as_were_asked_for(tasks: int) -> None:
    partition = LogPartition(7, "data/__consumer_offsets-7")
    large = [Range(partition, f"{number}.log", 0, MIN_TASK_BYTES, number, number + 1) for number in range(24)]
    planned = pack(large, tasks)
    assert len(planned) == tasks
    assert [item for task in planned for item in task.ranges] == large


def test_small_chunks_and_batches_larger_than_them(made: LogDirectory) -> None:
    log = Log()
    for number in range(20):
        log.append([commit_record("g", n, "x" * 30) for n in range(200 if number == 5 else 3)])
    made.write_log(7, log, per_segment=8)
    seen = look(made, chunk_bytes=256)
    assert read(made, seen, 4) == plain(log.data)[0]


def test_a_torn_tail_is_the_end_for_now(made: LogDirectory) -> None:
    log = simple_log(6)
    last = len(log.batches[-1])
    for cut in (1, 11, 60, 61, last - 1):
        made.write(7, [*log.batches[:-1], log.batches[-1][:cut]], per_segment=4)
        seen = look(made)
        assert (seen.next_offset, kinds(seen)) == (10, ["torn_tail"])
        (finding,) = seen.passing
        assert (finding.first_offset, finding.path) == (10, str(made.segments(7)[-1]))
        assert finding.position == len(log.batches[-2])
        assert len(read(made, seen)) == 10
    for wrong in (bytes(last), b"\xff" * last):
        damaged = log.batches[-1][:80] + wrong[80:]
        made.write(7, [*log.batches[:-1], damaged], per_segment=4)
        assert kinds(look(made)) == ["torn_tail"]
    made.write(7, [*log.batches[:-1], log.batches[0]], per_segment=10)
    assert (look(made).next_offset, kinds(look(made))) == (10, ["torn_tail"])
    made.write(7, [*log.batches, bytes(3000)], per_segment=10)
    assert (look(made).next_offset, kinds(look(made))) == (12, ["torn_tail"])
    made.write_log(7, log)
    assert (look(made, 10).next_offset, kinds(look(made, 10))) == (12, [])


def test_damage_ends_what_is_read_of_a_partition(made: LogDirectory) -> None:
    log = simple_log(9)
    made.write_log(7, log)
    _, middle, last = made.segments(7)
    whole = middle.read_bytes()
    length = len(log.batches[0])
    middle.write_bytes(whole[: length + 70] + b"\xff\xff" + whole[length + 72 :])
    seen = look(made)
    (finding,) = seen.findings
    place = (finding.kind, finding.first_offset, finding.path, finding.position)
    assert place == ("damage", 8, str(middle), length)
    assert (seen.next_offset, len(read(made, seen))) == (8, 8)
    # A segment that is not the last one does not end early either.
    middle.write_bytes(whole[:-5])
    assert [(found.kind, found.first_offset) for found in look(made).findings] == [("damage", 10)]
    # In the last segment there is damage too, where more follows.
    middle.write_bytes(whole)
    raw = bytearray(last.read_bytes())
    raw[70] ^= 1
    last.write_bytes(raw)
    assert [(found.kind, found.first_offset) for found in look(made).findings] == [("damage", 12)]


def test_a_batch_may_not_be_as_large_as_it_likes(made: LogDirectory) -> None:
    log = simple_log(3)
    huge = bytearray(log.batches[1])
    huge[8:12] = (MAX_BATCH_BYTES + 1).to_bytes(4, "big")
    made.write(7, [log.batches[0], bytes(huge)])
    path = made.segments(7)[0]
    os.truncate(path, MAX_BATCH_BYTES * 2)
    seen = look(made)
    assert ([found.kind for found in seen.findings], seen.next_offset) == (["damage"], 2)


def test_old_message_formats_are_damage_for_us(made: LogDirectory) -> None:
    log = simple_log(3)
    old = bytearray(log.batches[1])
    old[16] = 1
    made.write(7, [log.batches[0], bytes(old), log.batches[2]], per_segment=5)
    (finding,) = look(made).findings
    assert "magic 1" in finding.detail


def test_lost_history_is_found(made: LogDirectory) -> None:
    log = simple_log(9)
    made.write(7, log.batches[4:])
    seen = look(made, 2)
    (finding,) = seen.findings
    assert (finding.kind, finding.first_offset, finding.last_offset) == ("lost_history", 2, 7)
    assert (seen.first_offset, len(read(made, seen))) == (8, 10)
    assert kinds(look(made)) == []  # the first survey has no expected range


def test_a_log_that_ends_before_what_was_read(made: LogDirectory) -> None:
    made.write_log(7, simple_log(3))
    seen = look(made, 10)
    assert [(found.kind, found.first_offset, found.last_offset) for found in seen.findings] == [
        ("lost_history", 6, 9)
    ]
    assert (seen.pieces, seen.next_offset) == ([], 10)


def test_gaps_are_told_once_and_are_no_damage(made: LogDirectory) -> None:
    log = simple_log(6, records=4)
    kept = [compacted(batch, 2) for number, batch in enumerate(log.batches) if number != 2]
    made.write(7, kept)
    seen = look(made)
    assert (kinds(seen), seen.next_offset) == ([], 24)
    (gap,) = seen.findings_until(24)
    assert (gap.kind, gap.first_offset, gap.last_offset) == ("gap", 0, 23)
    assert gap.detail.startswith("14 of 24 ")
    assert len(read(made, seen)) == 10


def in_transaction(log: Log, producer_id: int, offset: int) -> None:
    log.append([commit_record("g", offset)], producer_id=producer_id, producer_epoch=0, is_transactional=True)


def test_transactions(made: LogDirectory) -> None:
    log = Log()
    in_transaction(log, 1, 10)  # 0
    in_transaction(log, 2, 20)  # 1
    log.append([commit_record("g", 30)])  # 2
    log.end_transaction(1, is_committed=False)  # 3
    in_transaction(log, 1, 40)  # 4: another one of the same producer
    log.end_transaction(2, is_committed=True)  # 5
    log.end_transaction(1, is_committed=True)  # 6
    in_transaction(log, 1, 50)  # 7: open
    log.append([commit_record("g", 60)])  # 8
    made.write_log(7, log, per_segment=2)
    seen = look(made)
    assert seen.next_offset == 7
    rows = [(row["log_offset"], row["offset"], row["producer_id"]) for row in read(made, seen)]
    assert rows == [(1, 20, 2), (2, 30, None), (4, 40, 1)]
    (open_one,) = seen.passing
    assert (open_one.kind, open_one.first_offset, open_one.last_offset) == ("open_transaction", 7, 8)
    (aborted,) = seen.findings_until(7)
    assert (aborted.kind, aborted.first_offset) == ("aborted_transaction", 3)
    log.end_transaction(1, is_committed=False)  # 9
    made.write_log(7, log, per_segment=2)
    again = look(made, 7)
    assert [row["offset"] for row in read(made, again)] == [60]
    assert (again.passing, again.next_offset) == ([], 10)


@pytest.mark.parametrize("level", [0, 2])
async def test_of_groupds_own_log_only_offsets_of_committed_transactions_are_read(
    made: LogDirectory, level: int
) -> None:
    """One is committed, one aborted with a plain commit while it was pending, one committed, one still open."""
    server = await start(settings(made.path, {"transaction.version": str(level)}, topics=TOPICS))
    transactor = Transactor(level=level)
    async with Client(server) as client:
        await transactor.begin(client)
        await transactor.transact(client)
        await transactor.look(client)
        await transactor.write(client)
        await client.call(commit_request(transactor.group, {("orders", 0): 70}, 8), 8)
        await transactor.end(client, commits=False)
        await transactor.look(client)
        await transactor.transact(client)
        await transactor.look(client)
        await transactor.write(client)
        await client.call(commit_request(transactor.group, {("orders", 0): 80}, 8), 8)
    server.abandon()
    seen = look(made, number=partition_for(transactor.group, 3))
    rows = [row for row in read(made, seen) if row["kind"] == "commit"]
    assert [(row["offset"], row["producer_id"] is None) for row in rows] == [
        (1, False),
        (70, True),
        (3, False),
    ]
    assert kinds(seen) == ["open_transaction"]
    assert len(seen.aborted) == 1


@pytest.mark.parametrize("tasks", [1, 3, 50])
def test_a_transaction_is_aborted_wherever_its_marker_lies(made: LogDirectory, tasks: int) -> None:
    log = Log()
    for number in range(40):
        in_transaction(log, number % 3, number)
        log.append([commit_record("plain", number, "x" * 50)])
    for producer_id in range(3):
        log.end_transaction(producer_id, is_committed=producer_id == 1)
    made.write_log(7, log, per_segment=7)
    rows = read(made, look(made, chunk_bytes=300), tasks)
    assert [row["offset"] for row in rows if row["group"] == "g"] == list(range(1, 40, 3))
    assert sum(row["group"] == "plain" for row in rows) == 40


def test_what_brokers_leave_lying_about(made: LogDirectory) -> None:
    log = simple_log(6)
    made.write_log(7, log)
    directory = made.partition(7)
    for suffix in (".deleted", ".cleaned", ".swap", ".index", ".snapshot", ".log.deleted"):
        (directory / f"{3:020d}{suffix}").write_bytes(b"nonsense")
    first = made.segments(7)[0]
    (directory / f"{first.name}.swap").write_bytes(b"nonsense")
    (directory / f"{first.name}.cleaned").write_bytes(b"nonsense")
    for name in (
        "__consumer_offsets-3.0123-delete",
        "__cluster_metadata-0",
        "orders-0",
        "__consumer_offsets-x",
    ):
        (made.root / name).mkdir()
        (made.root / name / segment_name(0)).write_bytes(b"nonsense")
    (made.root / "__consumer_offsets-9").write_bytes(b"a file")
    assert [one.number for one in find_partitions(LogFiles(made.path))] == [7]
    assert len(read(made, look(made))) == 12


def test_a_segment_in_the_middle_of_being_swapped_is_read(made: LogDirectory) -> None:
    log = simple_log(9)
    made.write_log(7, log)
    first = made.segments(7)[0]
    first.rename(f"{first}.swap")
    assert len(read(made, look(made))) == 18


def test_compaction_between_survey_and_reading(made: LogDirectory) -> None:
    log = simple_log(12, records=4)
    made.write_log(7, log)
    seen = look(made, chunk_bytes=300)
    # Two segments become one, under the name of the first, and half of the records are gone.
    thinner = [compacted(batch, 2) for batch in log.batches[:6]]
    first, second, *_ = made.segments(7)
    first.write_bytes(b"".join(thinner))
    second.unlink()
    rows = read(made, seen, 4)
    assert [row["log_offset"] for row in rows] == [*range(1, 24, 2), *range(24, 48)]


def test_a_log_that_shrinks_under_a_reader_is_an_error(made: LogDirectory) -> None:
    log = simple_log(6)
    made.write_log(7, log)
    seen = look(made)
    made.write_log(7, log, 3)
    with pytest.raises(Exception, match="ends at 6"):
        read(made, seen)


def test_a_later_survey_begins_where_the_last_ended(made: LogDirectory) -> None:
    log = simple_log(8)
    made.write_log(7, log, 5, per_segment=4)
    seen = look(made)
    assert seen.place is not None
    made.write_log(7, log, per_segment=4)
    files = LogFiles(made.path)
    (partition,) = find_partitions(files)
    later = survey(files, partition, seen.place)
    assert [row["log_offset"] for row in read(made, later)] == [10, 11, 12, 13, 14, 15]
    # The place no longer holds: the segment is another one.
    made.write(7, [compacted(log.batches[0], 1), *log.batches[3:]], per_segment=9)
    later = survey(files, partition, seen.place)
    assert [row["log_offset"] for row in read(made, later)] == [10, 11, 12, 13, 14, 15]


def test_only_a_group(made: LogDirectory) -> None:
    log = Log()
    log.append([commit_record("a", 1), commit_record("b", 2), Record(-1, 0, b"\0\7xx", b"v")])
    made.write_log(7, log)
    rows = read(made, look(made), wanted=Wanted(groups=frozenset({"b"})))
    assert [row["group"] for row in rows] == ["b"]


def bad_places(root: Path) -> dict[str, tuple[Path, str]]:
    made = LogDirectory(root / "data")
    made.write_log(7, simple_log(2))
    other = made.root / "orders-0"
    other.mkdir()
    (other / segment_name(0)).write_bytes(made.segments(7)[0].read_bytes())
    (root / "empty").mkdir()
    (root / "strangers" / "photos").mkdir(parents=True)
    (made.root / "__consumer_offsets-8").mkdir()
    (made.partition(7) / "readme.txt").write_text("hello")
    return {
        "missing": (root / "nothing", "does not exist"),
        "empty": (root / "empty", "is empty"),
        "no partition": (root / "strangers", "has no partition directory"),
        "another topic": (other, "is a partition of orders"),
        "another topic's segment": (other / segment_name(0), "is not in a partition directory of"),
        "a partition without segments": (made.root / "__consumer_offsets-8", "has no segment"),
        "no segment": (made.partition(7) / "readme.txt", "is not a segment"),
    }


@pytest.mark.parametrize(
    "name", ["missing", "empty", "no partition", "another topic", "another topic's segment",
             "a partition without segments", "no segment"],
)  # fmt: skip
def test_bad_input_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    path, said = bad_places(tmp_path)[name]
    with pytest.raises(BadInput) as raised:
        find_partitions(LogFiles(str(path)))
    assert str(raised.value).startswith(f"{path}: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_one_partition_or_one_segment_can_be_given(made: LogDirectory) -> None:
    log = simple_log(6)
    made.write_log(7, log)
    directory = LogFiles(str(made.partition(7)))
    (partition,) = find_partitions(directory)
    assert survey(directory, partition, None).next_offset == 12
    segment = LogFiles(str(made.segments(7)[1]))
    (partition,) = find_partitions(segment)
    seen = survey(segment, partition, None)
    assert (seen.first_offset, seen.next_offset, partition.number) == (6, 12, 7)


def test_a_url_is_as_good_as_a_path(made: LogDirectory) -> None:
    log = simple_log(6)
    made.write_log(7, log)
    files = LogFiles(f"file://{made.path}")
    (partition,) = find_partitions(files)
    assert survey(files, partition, None).next_offset == 12
    with pytest.raises(BadInput):
        LogFiles("gopher://somewhere/data")


def test_an_empty_log_has_no_rows() -> None:
    assert record_batch([]).num_rows == 0
