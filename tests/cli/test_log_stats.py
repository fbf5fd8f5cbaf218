"""`groupd log stats`: counts compared with the written records and with Kafka's tool."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.cli.log.decoded_record import TYPE_NAMES
from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from storage.batch import encode_batch
from storage.compression import GZIP
from storage.record import Record
from tests.cli.log_directory import (
    OFFSETS,
    ORDERS,
    fact,
    flip,
    json_lines,
    log,
    segments,
    write_data_directory,
)
from tests.kafka_log.fixture import NAMES, expected, unpack

WRITES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.booleans()), min_size=1, max_size=40
)


def record(group: str, partition: int, is_tombstone: bool) -> Record:
    value = None if is_tombstone else OffsetCommitValue(offset=partition, metadata=group, commit_timestamp=1)
    return fact(OffsetCommitKey(group=group, topic="orders", partition=partition), value)


@settings(max_examples=40)
@given(writes=WRITES)
def test_counts_match_the_written_records(
    writes: list[tuple[str, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("data")
    records = [record(*write) for write in writes]
    write_data_directory(path, {OFFSETS: [[item] for item in records]})
    (stats,) = json_lines(log("stats", "--json", path))
    latest = {(group, partition): is_tombstone for group, partition, is_tombstone in writes}
    live = sum(not is_tombstone for is_tombstone in latest.values())
    offsets = stats["consumer_offsets"]
    assert offsets["records"] == stats["records"] == stats["batches"] == len(writes)
    assert offsets["live_keys"] == live
    assert offsets["tombstones"] == sum(is_tombstone for _, _, is_tombstone in writes)
    assert offsets["superseded_records"] == len(writes) - len(latest)
    assert offsets["bytes"] == sum(len(item.key or b"") + len(item.value or b"") for item in records)
    assert stats["bytes"] == sum(segment.stat().st_size for segment in segments(path))
    assert sum(group["records"] for group in stats["groups"]) == len(writes)
    sizes = [group["bytes"] for group in stats["groups"]]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_live_records_by_type_are_those_that_kafka_counted(name: str, tmp_path: Path) -> None:
    unpack(name, str(tmp_path))
    paths = [path for path in tmp_path.glob("__consumer_offsets-*") if list(path.glob("*.log"))]
    (stats,) = json_lines(log("stats", "--json", *paths))
    seen = expected(name)["log"]
    assert {kind: count["live_keys"] for kind, count in stats["types"].items() if count["live_keys"]} == {
        TYPE_NAMES[int(number)]: count for number, count in seen["live_records"].items()
    }
    assert set(stats["codecs"]) == set(seen["codecs"])
    assert stats["batches"] == sum(seen["codecs"].values())


def test_a_key_of_before_0_9_is_the_same_key(tmp_path: Path) -> None:
    new = record("g", 0, False)
    assert new.key is not None
    write_data_directory(tmp_path, {OFFSETS: [[new._replace(key=b"\0\0" + new.key[2:]), new]]})
    (stats,) = json_lines(log("stats", "--json", tmp_path))
    assert (stats["consumer_offsets"]["records"], stats["consumer_offsets"]["live_keys"]) == (2, 1)


def test_statistics_distinguish_times_codecs_and_logs(tmp_path: Path) -> None:
    first = fact(GroupMetadataKey(group="g"), None, timestamp_ms=2000)
    plain = [Record(-1, 1000, b"k", b"v" * 500), Record(-1, 3000, None, b"v" * 500)]
    write_data_directory(tmp_path, {OFFSETS: [[first]], ORDERS: [encode_batch(plain, codec=GZIP)]})
    (stats,) = json_lines(log("stats", "--json", tmp_path))
    assert (stats["first_timestamp_ms"], stats["last_timestamp_ms"]) == (1000, 3000)
    assert set(stats["codecs"]) == {"none", "gzip"}
    assert sum(one["share"] for one in stats["codecs"].values()) == pytest.approx(1, abs=0.001)
    assert [(one["topic"], one["records"]) for one in stats["logs"]] == [
        ("__consumer_offsets", 1),
        ("orders", 2),
    ]
    assert stats["types"]["record"]["bytes"] == 1001


def test_the_form_for_people_names_the_largest_groups_only(tmp_path: Path) -> None:
    records = [record(f"group-{number}" + "x" * number, 0, False) for number in range(9)]
    write_data_directory(tmp_path, {OFFSETS: [records]})
    result = log("stats", "--top", 2, tmp_path)
    assert result.exit_code == 0
    assert [number for number in range(9) if f"group-{number}x" in result.stdout] == [7, 8]


def test_damage_is_counted_and_ends_with_a_code_of_its_own(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[record("g", number, False)] for number in range(3)]})
    (segment,) = segments(tmp_path)
    size = segment.stat().st_size
    flip(segment, size // 3 + 40)
    (stats,) = json_lines(log("stats", "--json", tmp_path), 1)
    assert (stats["records"], stats["bad_bytes"]) == (2, size // 3)
