"""Where log ends come from: a directory, a cluster, a file."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from pipeline.errors import BadInput
from pipeline.log_ends import directory
from pipeline.log_ends.cluster import ends_of_cluster, parse_address
from pipeline.log_ends.directory import ends_in_directory, snapshot_of_directory
from pipeline.log_ends.file import ends_in_file
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.measure import measurer
from pipeline.log_ends.snapshot import Bounds, Snapshot
from storage.batch import encode_batch
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.topic_partition import TopicPartition

NOW_MS = 1_000_000
PERIOD = Period(100_000, 200_000, 10)
T0 = TopicPartition("t", 0)
NOTHING_KNOWN = Snapshot(NOW_MS, {})


def batch(time_ms: int, records: int = 1) -> bytes:
    return encode_batch([Record(0, time_ms, b"k", b"v" * 50)] * records)


def write_log(path: Path, batches: list[bytes], config: LogConfig | None = None) -> PartitionLog:
    log = PartitionLog.open(OsFiles(), str(path), config or LogConfig())
    for data in batches:
        log.append(data)
    log.close()
    return log


def found(
    log_dir: Path, *partitions: TopicPartition, period: Period = PERIOD
) -> list[tuple[int, int, int | None]]:
    (log_dir / "__consumer_offsets-0").mkdir(exist_ok=True)
    snapshot = snapshot_of_directory(str(log_dir))._replace(instant_ms=NOW_MS)
    ends = ends_in_directory(str(log_dir), partitions or [T0], period, snapshot)
    return [(end.at_ms, end.log_end_offset, end.log_start_offset) for end in ends]


def test_a_log_ends_after_its_last_batch_at_the_time_of_that(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [batch(150_000, 3)])
    assert found(tmp_path) == [(150_000, 3, 0)]


def test_each_step_has_its_end_and_all_before_the_period_is_one(tmp_path: Path) -> None:
    times = (10_000, 50_000, 101_000, 102_000, 119_999, 120_000, 300_000)
    write_log(tmp_path / "t-0", [batch(time) for time in times])
    assert found(tmp_path) == [
        (50_000, 2, 0), (102_000, 4, 0), (119_999, 5, 0), (120_000, 6, 0), (300_000, 7, 0),
    ]  # fmt: skip


def test_time_does_not_go_back_nor_into_the_future(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [batch(150_000), batch(110_000), batch(NOW_MS * 9)])
    assert found(tmp_path) == [(150_000, 2, 0), (NOW_MS, 3, 0)]


def test_an_empty_log_ends_where_it_begins_and_a_missing_one_nowhere(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [])
    assert found(tmp_path, T0, TopicPartition("t", 1)) == [(NOW_MS, 0, 0)]


def test_only_partitions_that_are_asked_for_are_looked_at(tmp_path: Path) -> None:
    for name in ("t-0", "t-1", "u-0"):
        write_log(tmp_path / name, [batch(150_000)])
    snapshot = Snapshot(NOW_MS, {})
    ends = list(ends_in_directory(str(tmp_path), [TopicPartition("t", 1)], PERIOD, snapshot))
    assert ends == [LogEnd("t", 1, 150_000, 0, 1, "log_dir")]


def test_a_log_of_many_segments_reads_the_same_by_its_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    write_log(tmp_path / "t-0", [batch(100_000 + 100 * n) for n in range(900)], config)
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 3
    walked = found(tmp_path)
    monkeypatch.setattr(directory, "LARGE_SEGMENT_BYTES", 0)
    indexed = found(tmp_path)
    assert walked[-1] == indexed[-1] == (189_900, 900, 0)
    assert [PERIOD.step(time_ms) for time_ms, _, _ in indexed] == [
        PERIOD.step(time_ms) for time_ms, _, _ in walked
    ]
    for (_, exact, _), (_, about, _) in zip(walked, indexed, strict=True):
        assert 0 <= exact - about <= 10


def test_a_torn_batch_ends_the_log_before_it(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [batch(150_000), batch(160_000)])
    (segment,) = (tmp_path / "t-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-5])
    assert found(tmp_path) == [(150_000, 1, 0)]
    segment.write_bytes(segment.read_bytes()[:30])
    assert found(tmp_path) == [(NOW_MS, 0, 0)]


def test_deleted_records_move_the_start(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [batch(150_000, 9)])
    (tmp_path / directory.START_OFFSETS).write_text("0\n1\nt 0 4\n")
    assert found(tmp_path) == [(150_000, 9, 4)]


def test_a_name_cannot_lead_out_of_the_directory(tmp_path: Path) -> None:
    write_log(tmp_path / "outside" / "t-0", [batch(150_000)])
    (tmp_path / "inside").mkdir()
    assert found(tmp_path / "inside", TopicPartition("../outside/t", 0)) == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ends"


def test_csv_and_json_say_the_same(file: Path) -> None:
    expected = [
        LogEnd("t", 0, 1_772_366_400_000, 5, 70, "file"),
        LogEnd("t,x", 1, 1_772_362_800_000, None, 3, "file"),
        LogEnd("u", 2, NOW_MS, None, 9, "file"),
    ]
    file.write_text(
        "topic,log_end_offset,partition,log_start_offset,at\n"
        't,70,0,5,2026-03-01T12:00:00\n"t,x",3,1,,2026-03-01T12:00:00+01:00\nu,9,2,,\n'
    )
    assert ends_in_file(str(file), NOW_MS) == expected
    file.write_text(
        json.dumps(
            [
                {
                    "topic": "t",
                    "partition": 0,
                    "log_end_offset": 70,
                    "log_start_offset": 5,
                    "at": 1_772_366_400_000,
                },
                {"topic": "t,x", "partition": 1, "log_end_offset": 3, "at": "2026-03-01T11:00:00Z"},
                {"topic": "u", "partition": "2", "log_end_offset": "9", "at": None},
            ]
        )
    )
    assert ends_in_file(str(file), NOW_MS) == expected


def test_what_kafkas_tool_prints_is_taken(file: Path) -> None:
    file.write_text("orders:0:17\norders:1:0\n")
    assert ends_in_file(str(file), NOW_MS) == [
        LogEnd("orders", 0, NOW_MS, None, 17, "file"),
        LogEnd("orders", 1, NOW_MS, None, 0, "file"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "ends"),
        ("topic,partition\nt,0\n", "log_end_offset"),
        ("topic,partition,log_end_offset\nt,0,5\nt,-1,5\n", "line 3"),
        ("topic,partition,log_end_offset\nt,0,1e3\n", "line 2"),
        ("topic,partition,log_end_offset\nt,0\n", "line 2"),
        ("topic,partition,log_end_offset,at\nt,0,5,yesterday\n", "line 2"),
        ("t:0:5\nnonsense\n", "line 2"),
        ("[{]", "ends"),
        ('[{"topic": "t", "partition": 0, "log_end_offset": 5}, 7]', "entry 2"),
        ('[{"topic": "", "partition": 0, "log_end_offset": 5}]', "entry 1"),
        ('[{"topic": "t", "partition": true, "log_end_offset": 5}]', "entry 1"),
        ('[{"topic": "t", "partition": 0, "log_end_offset": 9223372036854775808}]', "entry 1"),
    ],
)
def test_a_bad_file_is_named_with_the_place(file: Path, text: str, place: str) -> None:
    file.write_text(text)
    with pytest.raises(BadInput) as error:
        ends_in_file(str(file), NOW_MS)
    assert str(file) in str(error.value)
    assert place in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_no_text_is_named(file: Path) -> None:
    with pytest.raises(BadInput, match="ends"):
        measurer(None, None, str(file))
    file.write_bytes(b"topic\xff\xfe")
    with pytest.raises(BadInput, match="ends"):
        measurer(None, None, str(file))


def test_only_measurements_of_consumed_partitions_are_kept(file: Path) -> None:
    file.write_text("t:0:5\nu:0:6\n")
    measure = measurer("/nowhere", None, str(file))
    assert [end.topic for end in measure([T0], PERIOD, NOTHING_KNOWN)] == ["t"]


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:70000", "host:x"])
def test_an_address_needs_a_host_and_a_port(text: str) -> None:
    with pytest.raises(BadInput):
        parse_address(text)


def test_addresses_of_every_kind() -> None:
    assert parse_address("broker:9092") == ("broker", 9092)
    assert parse_address("[::1]:9092,other:1") == ("::1", 9092)


def test_nobody_at_the_address_is_said() -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BadInput, match=address):
            list(ends_of_cluster(address, [T0], PERIOD, NOTHING_KNOWN))


def test_something_else_at_the_address_is_said() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BadInput, match=address):
            list(ends_of_cluster(address, [T0], PERIOD, NOTHING_KNOWN))
        thread.join()


def test_steps_cover_the_period() -> None:
    period = Period(100_500, 131_000, 10)
    assert list(period.ends_ms()) == [110_000, 120_000, 130_000, 131_000]
    assert [period.step(time_ms) for time_ms in (0, 99_999, 100_500, 110_000)] == [9, 9, 10, 11]


def test_what_is_appended_after_a_snapshot_does_not_count(tmp_path: Path) -> None:
    for name in ("t-0", "__consumer_offsets-0"):
        write_log(tmp_path / name, [batch(150_000, 3)])
    snapshot = snapshot_of_directory(str(tmp_path))._replace(instant_ms=160_000)
    assert (snapshot.topics, snapshot.offsets_log) == ({T0: Bounds(0, 3)}, {0: 3})
    for name in ("t-0", "__consumer_offsets-0"):
        write_log(tmp_path / name, [batch(155_000, 4)])
    (tmp_path / directory.START_OFFSETS).write_text("0\n1\nt 0 6\n")
    (found_end,) = ends_in_directory(str(tmp_path), [T0], PERIOD, snapshot)
    assert found_end == LogEnd("t", 0, 150_000, 0, 3, "log_dir")
    assert snapshot_of_directory(str(tmp_path)).offsets_log == {0: 7}


def test_without_a_snapshot_of_a_log_later_messages_do_not_count(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [batch(150_000, 3), batch(155_000, 4), batch(160_000, 5)])
    ends = list(ends_in_directory(str(tmp_path), [T0], PERIOD, Snapshot(155_000, {})))
    assert [(end.at_ms, end.log_end_offset) for end in ends] == [(155_000, 7)]


def test_a_snapshot_leaves_out_a_topic_that_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t-0", "u-0", "__consumer_offsets-0"):
        write_log(tmp_path / name, [batch(150_000, 3)])

    def delete_before_the_ends_are_read(_: str) -> dict[TopicPartition, int]:
        shutil.rmtree(tmp_path / "u-0")
        return {}

    monkeypatch.setattr(directory, "_start_offsets", delete_before_the_ends_are_read)
    assert snapshot_of_directory(str(tmp_path)).topics == {T0: Bounds(0, 3)}
