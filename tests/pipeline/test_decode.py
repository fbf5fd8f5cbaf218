"""The decoders agree on all input and are right on known input."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.decode.frames import read_frames
from pipeline.decode.plain import batch_rows
from pipeline.decode.rows import KINDS, SCHEMA, Finding, record_batch
from pipeline.decode.vectorised import Wanted, decode_frames
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    CurrentTopicPartitions,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import Key, Value, encode_key, encode_value
from protocol.schema import message_info
from storage.batch import BatchHeader, encode_batch, read_header, walk_batches
from storage.compression import CODEC_NAMES
from storage.record import Record
from storage.storage_errors import CorruptBatch
from tests.pipeline.random_logs import Log, logs

Rows = list[dict[str, Any]]
LOGS = 40
"""Random logs of a test, of some twelve records each. To draw them takes far longer than to decode them."""


def by_offset(batches: list[pa.RecordBatch]) -> Rows:
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (int(row["log_offset"]), repr(row)))


def vectorised(data: bytes, wanted: Wanted | None = None) -> tuple[Rows, list[Finding]]:
    frames, fault = read_frames(data)
    assert fault is None, fault
    decoded = decode_frames(data, frames, 7, wanted or Wanted())
    return by_offset(decoded.batches()), decoded.findings


def plain(data: bytes, wanted: Wanted | None = None) -> tuple[Rows, list[int]]:
    """Rows, and the base offsets of the batches that do not decode."""
    rows, damaged = [], []
    for position, header in walk_batches(data):
        try:
            rows += batch_rows(data[position:], header, 7)
        except CorruptBatch:
            damaged.append(header.base_offset)
    rows = [row for row in rows if (wanted or Wanted()).takes(row)]
    return by_offset([record_batch(rows)]), damaged


@settings(max_examples=LOGS)
@given(logs())
def test_both_decoders_give_the_same_rows(log: Log) -> None:
    assert vectorised(log.data) == (plain(log.data)[0], [])


@settings(max_examples=LOGS)
@given(logs(), st.sets(st.sampled_from(KINDS)), st.none() | st.sets(st.sampled_from(["g", "größe", ""])))
def test_only_wanted_rows_are_given(log: Log, kinds: set[str], groups: set[str] | None) -> None:
    wanted = Wanted(frozenset(kinds), None if groups is None else frozenset(groups), 2, 9)
    rows, _ = vectorised(log.data, wanted)
    assert rows == plain(log.data, wanted)[0]
    assert all(row["kind"] in kinds and 2 <= row["log_offset"] < 9 for row in rows)


@settings(max_examples=LOGS)
@given(logs(), st.randoms(use_true_random=False))
def test_records_damaged_under_a_right_checksum_are_found_alike(log: Log, chance: random.Random) -> None:
    data = b""
    for batch in log.batches:
        raw = bytearray(batch)
        if chance.random() < 0.5 and len(raw) > 61:
            raw[chance.randrange(61, len(raw))] ^= 1 << chance.randrange(8)
        data += bytes(raw)
    frames, _ = read_frames(data, check=False)
    assert len(frames) == len(log.batches)
    decoded = decode_frames(data, frames, 7, Wanted(), "a.log", 1000)
    rows, damaged = plain(data)
    assert by_offset(decoded.batches()) == rows
    assert sorted(finding.first_offset for finding in decoded.findings) == damaged
    for finding in decoded.findings:
        assert finding.position is not None
        assert read_header(data, finding.position - 1000).base_offset == finding.first_offset


@pytest.mark.parametrize("count", [1, 30, 400])
def test_long_batches_among_short_ones(count: int) -> None:
    log = Log()
    for number in range(60):
        some = [
            commit_record(f"g{number}", n, "x" * (n % 200)) for n in range(count if number % 7 == 3 else 1)
        ]
        log.append(some, codec=number % 5)
    rows, findings = vectorised(log.data)
    assert (rows, findings) == (plain(log.data)[0], [])
    assert [row["log_offset"] for row in rows] == list(range(log.next_offset))


def commit_record(group: str, offset: int, metadata: str = "", version: int = 3) -> Record:
    key = encode_key(OffsetCommitKey(group=group, topic="orders", partition=2))
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=5,
        metadata=metadata,
        commit_timestamp=1_700_000_000_000,
        expire_timestamp=1_700_000_100_000,
        topic_id=bytes(range(16)),
    )
    return Record(-1, 1_700_000_000_001, key, encode_value(value, version))


@pytest.mark.parametrize("version", range(message_info(OffsetCommitValue).versions.last + 1))
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_commit_of_every_version_by_hand(version: int, codec: int) -> None:
    data = encode_batch([commit_record("grün", 100, "m", version)], 40, codec=codec)
    ((row,), _) = vectorised(data)
    epoch = 1_700_000_000 * 1_000_000
    times = {
        name: row[name] and int(row[name].timestamp() * 1e6) - epoch for name in ("commit_ts", "expire_ts")
    }
    assert times == {"commit_ts": 0, "expire_ts": 100_000_000 if version == 1 else None}
    assert int(row["record_ts"].timestamp() * 1e6) - epoch == 1000
    expected = {
        "kind": "commit", "log_partition": 7, "log_offset": 40, "group": "grün", "topic": "orders",
        "partition": 2, "offset": 100, "metadata": "m", "tombstone": False, "value_version": version,
        "leader_epoch": 5 if version >= 3 else None, "producer_id": None,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw" if version == 4 else None,
    }  # fmt: skip
    assert expected.items() <= row.items()
    frames, _ = read_frames(data)
    # The plain decoder would give the same row, and takes far longer.
    assert decode_frames(data, frames, 7, Wanted()).rows == []


def test_a_group_name_that_is_no_text_is_kept_as_bytes() -> None:
    record = commit_record("abc", 1)
    assert record.key is not None
    broken = record._replace(key=record.key.replace(b"abc", b"a\xffc"))
    rows, findings = vectorised(encode_batch([record, broken, record]))
    assert [row["kind"] for row in rows] == ["commit", "unknown", "commit"]
    assert (rows[1]["key"], rows[1]["key_type"], findings) == (broken.key, 1, [])
    only_unknown, _ = vectorised(encode_batch([record, broken, record]), Wanted(frozenset({"unknown"})))
    assert [row["log_offset"] for row in only_unknown] == [1]


@settings(max_examples=LOGS)
@given(logs(max_batches=5), st.data())
@example(Log(), None)
def test_a_buffer_that_is_cut_or_damaged_ends_with_the_last_sound_batch(
    log: Log, data: st.DataObject | None
) -> None:
    whole = log.data
    if data is None or not whole:
        assert len(read_frames(b"")[0]) == 0
        return
    place = data.draw(st.integers(0, len(whole) - 1))
    sound = [(position, header) for position, header in walk_batches(whole)]
    before = sum(position + header.size_bytes <= place for position, header in sound)
    cut, fault = read_frames(whole[:place])
    assert len(cut) == before
    assert (fault is None) == (cut.end == place)
    assert fault is None or fault.is_cut
    damaged = bytearray(whole)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    frames, fault = read_frames(bytes(damaged))
    offset_in_batch = place - sound[before][0]
    if 12 <= offset_in_batch < 16:  # the leader epoch is not under the checksum
        assert fault is None
    elif offset_in_batch >= 8:
        assert len(frames) == before
        assert fault is not None
        assert fault.position == sound[before][0]


@settings(max_examples=LOGS)
@given(logs(max_batches=4))
def test_headers_are_those_of_the_daemon(log: Log) -> None:
    frames, _ = read_frames(log.data)
    expected = [header for _, header in walk_batches(log.data)]
    assert [frames.header(index) for index in range(len(frames))] == expected
    for name in BatchHeader._fields:
        assert frames.field(name).tolist() == [getattr(header, name) for header in expected]


def test_spark_can_take_the_schema_as_it_is() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    assert types.to_arrow_schema(types.from_arrow_schema(SCHEMA), timezone="UTC").equals(SCHEMA)


def test_what_records_of_consumer_groups_say() -> None:
    topic_id = bytes(range(16))
    held = CurrentTopicPartitions(topic_id=topic_id, partitions=[0, 4], assignment_epochs=[2, 5])
    lost = CurrentTopicPartitions(topic_id=topic_id, partitions=[1], assignment_epochs=None)
    pairs: list[tuple[Key, Value | None]] = [
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3)),
        (
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=5, previous_member_epoch=4, state=1, assigned_partitions=[held],
                partitions_pending_revocation=[lost],
            ),
        ),
        (ConsumerGroupMetadataKey(group_id="g"), None),
        (ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*"), None),
    ]  # fmt: skip
    records = [
        Record(number, 1000, encode_key(key), None if value is None else encode_value(value, 0))
        for number, (key, value) in enumerate(pairs)
    ]
    share_group = Record(len(records), 1000, b"\0\x0b\0\1g", b"\0\0rest")
    data = encode_batch([*records, share_group])
    rows, findings = vectorised(data)
    assert (rows, []) == plain(data)
    assert not findings
    assert [(row["kind"], row["key_type"], row["group"], row["tombstone"]) for row in rows] == [
        ("consumer_group", 3, "g", False),
        ("consumer_group", 8, "g", False),
        ("consumer_group", 3, "g", True),
        ("consumer_group", 16, "g", True),
        ("unknown", 11, None, False),
    ]
    said = [row["consumer"] for row in rows]
    assert (said[0]["epoch"], said[0]["metadata_hash"], said[3]["expression"]) == (3, 0, "a.*")
    assert [said[1][name] for name in ("member_id", "epoch", "previous_epoch", "state")] == [
        "m", 5, 4, "unrevoked_partitions",
    ]  # fmt: skip
    assert [(one["holding"], one["partition"], one["since_epoch"]) for one in said[1]["partitions"]] == [
        ("assigned", 0, 2),
        ("assigned", 4, 5),
        ("pending_revocation", 1, None),
    ]
    assert {one["topic_id"] for one in said[1]["partitions"]} == {"AAECAwQFBgcICQoLDA0ODw"}
    assert (rows[4]["key"], rows[4]["value"]) == (share_group.key, share_group.value)
