"""`groupd log dump`: the printed records equal the written ones, for every form of logs."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey
from storage.batch import encode_batch
from storage.compression import CODEC_NAMES
from storage.record import Record
from storage.topic_partition import TopicPartition, uuid_to_text
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
from tests.cli.log_records import HISTORIES, commit, group_value, member
from tests.cli.test_serve import TIMEOUT_S, clean_environment
from tests.kafka_log.fixture import NAMES, expected, unpack

NOON_MS = 1_700_000_000_000


def said(key: Any, value: Any) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Type, key and value of a record as the dump has to print them, without the parts that members hold."""
    if isinstance(key, OffsetCommitKey):
        fields = {"type": 1, "group": key.group, "topic": key.topic, "partition": key.partition}
        if value is None:
            return "offset_commit", fields, None
        topic_id = uuid_to_text(value.topic_id) if any(value.topic_id) else None
        return (
            "offset_commit",
            fields,
            {
                "version": 4,
                "offset": value.offset,
                "leader_epoch": value.leader_epoch,
                "metadata": value.metadata,
                "commit_timestamp": value.commit_timestamp,
                "expire_timestamp": -1,
                "topic_id": topic_id,
            },
        )
    fields = {"type": 2, "group": key.group}
    if value is None:
        return "group_metadata", fields, None
    return (
        "group_metadata",
        fields,
        {
            "version": 4,
            "protocol_type": value.protocol_type,
            "generation": value.generation,
            "protocol": value.protocol,
            "leader": value.leader,
            "current_state_timestamp": value.current_state_timestamp,
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "rebalance_timeout": member.rebalance_timeout,
                    "session_timeout": member.session_timeout,
                }
                for member in value.members
            ],
        },
    )


def without_member_bytes(line: dict[str, Any]) -> dict[str, Any] | None:
    value: dict[str, Any] | None = line["value"]
    for one in (value or {}).get("members", ()):
        del one["subscription"], one["assignment"]
    return value


@settings(max_examples=60)
@given(HISTORIES, st.sampled_from(sorted(CODEC_NAMES)))
def test_a_dump_shows_all_written_records(history: list[list[Any]], codec: int) -> None:
    batches = [
        encode_batch([fact(key, value, 4, time) for (key, value), time in batch], codec=codec)
        for batch in history
    ]
    with tempfile.TemporaryDirectory() as path:
        write_data_directory(Path(path), {OFFSETS: batches}, SMALL_SEGMENTS)
        lines = json_lines(log("dump", "--json", path))
    facts = [item for batch in history for item in batch]
    assert [line["offset"] for line in lines] == list(range(len(facts)))
    assert [line["timestamp_ms"] for line in lines] == [time for _, time in facts]
    assert [line["tombstone"] for line in lines] == [value is None for (_, value), _ in facts]
    assert {line["batch"]["codec"] for line in lines} == {CODEC_NAMES[codec]}
    assert {(line["topic"], line["partition"]) for line in lines} == {tuple(OFFSETS)}
    assert [(line["type"], line["key"], without_member_bytes(line)) for line in lines] == [
        said(key, value) for (key, value), _ in facts
    ]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two groups, two topics, a topic's own log."""
    group = fact(GroupMetadataKey(group="readers"), group_value(member(["orders"], {"orders": [0, 2]})))
    write_data_directory(
        tmp_path / "data",
        {
            OFFSETS: [
                [commit("readers", "orders", timestamp_ms=NOON_MS)],
                [group._replace(timestamp_ms=NOON_MS + 1)],
                [commit("writers", "payments", timestamp_ms=NOON_MS + 2)],
                [fact(OffsetCommitKey(group="writers", topic="payments", partition=0), None)],
            ],
            TopicPartition("__consumer_offsets", 4): [
                [commit("others", "orders", timestamp_ms=NOON_MS + 5000)]
            ],
            ORDERS: [
                [Record(-1, NOON_MS, b"key", b"value"), Record(-1, NOON_MS, None, b"\xff\0", (("h", b"1"),))]
            ],
        },
    )
    return tmp_path / "data"


def places(*arguments: object) -> list[tuple[str, int, int]]:
    lines = json_lines(log("dump", "--json", *arguments))
    return [(line["topic"], line["partition"], line["offset"]) for line in lines]


ALL_OFFSETS = [("__consumer_offsets", 3, offset) for offset in range(4)]
OTHER = ("__consumer_offsets", 4, 0)
OWN = [("orders", 0, 0), ("orders", 0, 1)]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], [*ALL_OFFSETS, OTHER, *OWN]),
        (["--group", "readers"], ALL_OFFSETS[:2]),
        (["--group", "readers", "--group", "others"], [*ALL_OFFSETS[:2], OTHER]),
        (["--topic", "orders"], [*ALL_OFFSETS[:2], OTHER, *OWN]),
        (["--topic", "payments"], ALL_OFFSETS[2:]),
        (["--topic", "__consumer_offsets"], [*ALL_OFFSETS, OTHER]),
        (["--type", "group_metadata"], [ALL_OFFSETS[1]]),
        (["--type", "offset_commit", "--group", "readers"], [ALL_OFFSETS[0]]),
        (["--partition", "4"], [OTHER]),
        (["--partition", "3", "--from-offset", "2"], ALL_OFFSETS[2:]),
        (["--since", NOON_MS + 2, "--until", NOON_MS + 5000, "--type", "offset_commit"], [ALL_OFFSETS[2]]),
        (["--since", "2023-11-14T22:13:25Z"], [OTHER]),
        (["--since", "2023-11-14T23:13:25+01:00"], [OTHER]),
        (["--until", "2023-11-14T22:13:20.001", "--group", "readers"], [ALL_OFFSETS[0]]),
    ],
)
def test_filters_select_matching_records(
    mixed: Path, arguments: list[object], wanted: list[tuple[str, int, int]]
) -> None:
    assert places(*arguments, mixed) == wanted


def test_members_are_decoded_with_subscriptions_and_assignments(mixed: Path) -> None:
    (line,) = json_lines(log("dump", "--json", "--type", "group_metadata", mixed))
    (found,) = line["value"]["members"]
    assert found["subscription"]["topics"] == ["orders"]
    assert found["assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 2]}]


def test_records_of_ordinary_topics_are_text_or_digits_with_their_sizes(mixed: Path) -> None:
    first, second = json_lines(log("dump", "--json", "--type", "record", mixed))
    assert (first["key"], first["value"]) == ({"text": "key"}, {"text": "value"})
    assert (second["key"], second["value"]) == (None, {"hex": "ff00"})
    assert (second["key_bytes"], second["value_bytes"]) == (None, 2)
    assert second["headers"] == [{"key": "h", "value": {"text": "1"}}]


def test_the_form_for_people_is_one_line_a_record_that_steers_no_terminal(tmp_path: Path) -> None:
    records = [commit("evil\n\x1b[31m group", "orders"), fact(GroupMetadataKey(group="g"), None)]
    write_data_directory(tmp_path, {OFFSETS: [records], ORDERS: [[Record(-1, 5, b"\n", b"a\nb\x07" * 500)]]})
    result = log("dump", tmp_path)
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 700 for line in lines)
    assert str(OFFSETS) in lines[0]


def test_control_batches_and_transactions_are_marked(tmp_path: Path) -> None:
    marker = Record(-1, 7, b"\0\0\0\1", b"\0\0\0\0\0\5")
    batches: list[Any] = [
        encode_batch([commit("g", "orders")], producer_id=9, producer_epoch=2, is_transactional=True),
        encode_batch([marker], producer_id=9, producer_epoch=2, is_transactional=True, is_control=True),
    ]
    write_data_directory(tmp_path, {OFFSETS: batches})
    first, second = json_lines(log("dump", "--json", tmp_path))
    assert (first["type"], first["batch"]["is_transactional"]) == ("offset_commit", True)
    assert (first["batch"]["producer_id"], first["batch"]["producer_epoch"]) == (9, 2)
    assert (second["type"], second["batch"]["is_control"]) == ("control", True)
    assert (second["key"]["marker"], second["value"]["coordinator_epoch"]) == ("commit", 5)


@pytest.mark.parametrize(
    ("key", "value", "kind", "group"),
    [
        (b"\0\3\0\1g", b"\0\0\1\2", "consumer_group_metadata", "g"),
        (b"\0\x0a\0\1g\0\1m", None, "share_group_member_metadata", "g"),
        (b"\x03\xe7what", b"\0\7rest", "unknown", None),
        (b"\0", b"", "unknown", None),
        (None, b"value", "unknown", None),
        (b"\0\1\0\x63short", b"\0\3", "offset_commit", None),
        (b"\0\2\0\1g", b"\0\3short", "group_metadata", "g"),
    ],
)
def test_unknown_records_are_shown_with_type_and_bytes(
    tmp_path: Path, key: bytes | None, value: bytes | None, kind: str, group: str | None
) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[Record(-1, 5, key, value)]]})
    (line,) = json_lines(log("dump", "--json", tmp_path))
    assert line["type"] == kind
    assert (line["key"] or {}).get("group") == group
    assert line["tombstone"] == (value is None)
    assert "error" in line or "hex" in line["key"]
    shown = json.dumps([line["key"], line["value"]])
    if value is not None:
        assert value.hex() in shown
    if key is not None and group is None:
        assert key.hex() in shown
    assert log("dump", tmp_path).stdout.count("\n") == 1


def test_records_of_a_batch_that_compaction_emptied_are_not_missed(tmp_path: Path) -> None:
    unpack("compacted", str(tmp_path))
    lines = json_lines(log("dump", "--json", tmp_path))
    offsets = [
        line["offset"] for line in lines if (line["topic"], line["partition"]) == ("__consumer_offsets", 0)
    ]
    assert offsets == sorted(set(offsets))
    assert {line["batch"]["codec"] for line in lines} == {"none", "gzip", "snappy", "lz4", "zstd"}


@pytest.mark.parametrize("name", NAMES)
def test_dumps_of_broker_directories_match_kafkas_tool(name: str, tmp_path: Path) -> None:
    unpack(name, str(tmp_path))
    lines = json_lines(log("dump", "--json", "--topic", "__consumer_offsets", tmp_path))
    generations = {
        line["key"]["group"]: line["value"]["generation"]
        for line in lines
        if line["type"] == "group_metadata" and not line["tombstone"]
    }
    for group, generation in expected(name)["log"]["generations"].items():
        assert generations[group] == generation
    assert [line for line in lines if "error" in line] == []


def test_a_segment_and_a_partition_dump_like_their_directory(tmp_path: Path) -> None:
    records = [[commit("g", f"topic-{number}")] for number in range(60)]
    write_data_directory(tmp_path, {OFFSETS: records}, SMALL_SEGMENTS)
    paths = segments(tmp_path)
    assert len(paths) > 2
    whole = log("dump", "--json", tmp_path).stdout
    assert log("dump", "--json", tmp_path / str(OFFSETS)).stdout == whole
    assert log("dump", "--json", *paths).stdout == whole


def test_a_moved_segment_is_decoded_on_request(tmp_path: Path) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: [[commit("g", "orders")]]})
    (segment,) = segments(tmp_path / "data")
    copy = tmp_path / "some.file"
    copy.write_bytes(segment.read_bytes())
    (plain,) = json_lines(log("dump", "--json", copy))
    assert (plain["type"], plain["topic"]) == ("record", None)
    (decoded,) = json_lines(log("dump", "--json", "--offsets-decoder", copy))
    assert decoded["key"]["group"] == "g"


def test_leftovers_of_compaction_and_retention_are_ignored(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("g", "orders")]]})
    (segment,) = segments(tmp_path)
    data = segment.read_bytes()
    for suffix in (".deleted", ".cleaned", ".copy", ".damaged"):
        segment.with_name(segment.name + suffix).write_bytes(data)
    (tmp_path / f"orders-1.{'0' * 32}-delete").mkdir()
    (tmp_path / f"orders-1.{'0' * 32}-delete" / segment.name).write_bytes(data)
    assert len(json_lines(log("dump", "--json", tmp_path))) == 1
    assert len(json_lines(log("dump", "--json", segment.with_name(segment.name + ".deleted")))) == 1


def test_a_compacted_segment_on_its_way_counts_already(tmp_path: Path) -> None:
    write_data_directory(
        tmp_path, {OFFSETS: [[commit("g", f"t{number}")] for number in range(60)]}, SMALL_SEGMENTS
    )
    first, second, *others = segments(tmp_path)
    merged = first.read_bytes() + second.read_bytes()
    first.with_name(first.name + ".swap").write_bytes(merged)
    first.unlink()
    assert [line["offset"] for line in json_lines(log("dump", "--json", tmp_path))] == list(range(60))
    assert others


def test_a_torn_tail_ends_the_dump_and_damage_is_reported(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("g", f"t{number}")] for number in range(4)]})
    (segment,) = segments(tmp_path)
    data = segment.read_bytes()
    segment.write_bytes(data[:-7])
    torn = log("dump", "--json", tmp_path)
    assert [line["offset"] for line in json_lines(torn)] == [0, 1, 2]
    segment.write_bytes(data)
    flip(segment, len(data) // 4 + 40)
    damaged = log("dump", "--json", tmp_path)
    assert [line["offset"] for line in json_lines(damaged, 1)] == [0, 2, 3]
    assert str(segment) in damaged.stderr


@pytest.mark.parametrize("time", ["yesterday", "2023-13-01", ""])
def test_an_invalid_time_is_a_usage_error(mixed: Path, time: str) -> None:
    assert log("dump", "--since", time, mixed).exit_code == 2


def process(*arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "coordinator", "log", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )


def test_a_reader_that_has_had_enough_ends_it_quietly(tmp_path: Path) -> None:
    batches = [[commit("g", f"t{number}") for number in range(500)] for _ in range(20)]
    write_data_directory(tmp_path, {OFFSETS: batches})
    dump = process("dump", tmp_path)
    assert dump.stdout is not None
    assert dump.stderr is not None
    assert str(OFFSETS) in dump.stdout.readline()
    dump.stdout.close()
    assert dump.stderr.read() == ""
    dump.stderr.close()
    assert dump.wait(TIMEOUT_S) == 0


def test_following_prints_appended_records_of_new_segments(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("g", "t0")]]}, SMALL_SEGMENTS)
    dump = process("dump", "--json", "--follow", tmp_path)
    assert dump.stdout is not None
    try:
        assert json.loads(dump.stdout.readline())["key"]["topic"] == "t0"
        more = [f"t{number}" for number in range(1, 50)]
        write_data_directory(tmp_path, {OFFSETS: [[commit("g", topic)] for topic in more]}, SMALL_SEGMENTS)
        assert [json.loads(dump.stdout.readline())["key"]["topic"] for _ in more] == more
        assert len(segments(tmp_path)) > 2
    finally:
        dump.terminate()
        dump.communicate()
