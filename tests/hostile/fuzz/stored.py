"""Targets: batches of producers, and files from another broker, a crash or a bad disk."""

import struct
from collections.abc import Iterator
from typing import Final

from coordinator.core.outcome import Context, Now
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.partition_loader import LoadFailed, PartitionLoad
from coordinator.topics.kafka_metadata_log import read_cluster_topics
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.primitives import Malformed
from protocol.records.cluster_metadata import decode_metadata_record
from protocol.records.group_record_serde import UnknownKey, decode_key, decode_value, encode_key, encode_value
from storage.batch import check_crc, decode_records, encode_batch, read_header, walk_batches
from storage.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from storage.inspection.log_reader import find_logs
from storage.inspection.verification import LogVerification
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.log_validator import validate_batch
from storage.record import Record, decode_record_section, encode_records
from storage.storage_errors import CorruptBatch, DamagedFile, InvalidRecord, LogDamaged
from tests.group.consumer.members import FOO, Members
from tests.group.new_shard import new_shard
from tests.hostile.fuzz.samples import (
    DIRECTORY,
    SEGMENT,
    fixed_batches,
    group_records,
    with_file,
)
from tests.hostile.fuzz.small_files import file_targets
from tests.hostile.fuzz.target import Target
from tests.storage.batches import keys_and_values
from tests.storage.faulty_files import FaultyFiles

UNPACKED_BYTES: Final = 100_000
"""The most that compressed records may come to here."""
LATER_MS: Final = 10_000
LOADED: Final = Now(0, 1_000)
_RECORDS: Final = [
    Record(-1, 1000, b"key", b"value", (("header", b"h"), ("none", None))),
    Record(-1, 1001, None, b"x" * 200),
    Record(-1, 5, b"", None),
]


def batch_targets() -> Iterator[Target]:
    """Batches, as they come from producers."""
    batches = tuple(encode_batch(_RECORDS, codec=codec) for codec in (0, GZIP, SNAPPY, LZ4, ZSTD))
    damage = (CorruptBatch,)
    yield Target("batch", batches, read_batch, damage, fixed_batches, bytes_a_byte=2000)
    errors = (CorruptBatch, InvalidRecord)
    yield Target("produced batch", batches, read_produced, errors, fixed_batches, bytes_a_byte=2000)
    section = bytes([len(_RECORDS)]) + encode_records(_RECORDS, 1000)
    yield Target("records", (section,), read_section, damage)
    packed = tuple(bytes([codec]) + compress(codec, b"abc" * 99) for codec in (GZIP, SNAPPY, LZ4, ZSTD))
    yield Target("compressed", packed, read_compressed, damage, bytes_a_byte=2000)


def read_batch(data: bytes) -> None:
    header = read_header(data)
    records = decode_records(data, header, UNPACKED_BYTES)
    assert len(records) == header.records_count
    assert all(position < len(data) for position, _ in walk_batches(data))
    check_crc(data, 0, header)


def read_produced(data: bytes) -> None:
    valid = validate_batch(data, UNPACKED_BYTES)
    records = decode_records(data, None, UNPACKED_BYTES)
    assert [record.offset for record in records] == list(range(valid.header.records_count))
    keyless = [index for index, record in enumerate(records) if record.key is None]
    assert valid.first_null_key == next(iter(keyless), None)


def read_section(data: bytes) -> None:
    count, section = data[0] if data else 0, data[1:]
    try:
        records = decode_record_section(section, count, 0, 1000)
    except CorruptBatch:
        try:
            keys_and_values(section, count)
        except CorruptBatch:
            return
        raise AssertionError("the fast way takes what the other refuses") from None
    assert keys_and_values(section, count) == [(record.key, record.value) for record in records]


def read_compressed(data: bytes) -> None:
    assert len(decompress(data[0] if data else 0, data[1:], UNPACKED_BYTES)) <= UNPACKED_BYTES


def _consumer_group_records() -> list[Record]:
    """A group with all types of records, members of both protocols, and one that has left."""
    group = Members()
    group.enter("A", instance="i", rack="r", assignor="range")
    group.enter("B", None, regex="f.*")
    group.enter("C", ["foo", "bar"])
    group.advance(LATER_MS)
    group.say("A", 2, owned={FOO: [0, 1, 2]})
    group.say("C", -1)
    codec = GroupRecordCodec()
    return [Record(-1, 1000, *codec.encode(fact)) for fact in group.records]


def log_targets() -> Iterator[Target]:
    """Segments: recovered, checked, loaded."""
    records = group_records()
    log = encode_batch(records[:2], 0) + encode_batch(records[2:], 2)
    yield Target("recovery", (log,), recover, (), fixed_batches, steps_a_byte=2000)
    yield Target("damage before the recovery point", (log,), open_synced, (LogDamaged,), fixed_batches)
    yield Target("verification", (log,), verify, (), fixed_batches, steps_a_byte=2000)
    errors = (LogDamaged, LoadFailed, ValueError)  # the last: records that cannot be of a group
    yield Target("load", (log,), load, errors, fixed_batches, steps_a_byte=2000, bytes_a_byte=2000)
    modern = _consumer_group_records()
    log = encode_batch(modern[:5], 0) + encode_batch(modern[5:], 5)
    yield Target(
        "load of a consumer group",
        (log,),
        load_consumer_group,
        errors,
        fixed_batches,
        steps_a_byte=2000,
        bytes_a_byte=2000,
    )
    pairs = [
        struct.pack(">h", len(one.key or b"")) + (one.key or b"") + (one.value or b"")
        for one in (*records, *modern)
        if one.value is not None or one in records
    ]
    yield Target("record of a group", tuple(pairs), read_record, (Malformed,))
    topic = b"\x01\x02\x00" + b"\x02t" + bytes(16) + b"\x00"
    yield Target("record of a cluster", (topic,), decode_metadata_record, (Malformed,))
    metadata = encode_batch([Record(-1, 0, None, topic)], 0)
    yield Target("cluster metadata", (metadata,), read_metadata_log, (DamagedFile,), fixed_batches)


def recover(data: bytes) -> None:
    """Past the recovery point there is no error: invalid bytes are cut, and the rest stays."""
    files = with_file(SEGMENT, data)
    log = PartitionLog.open(files, DIRECTORY, LogConfig())
    end = log.log_end_offset
    kept = [batch.header for batch in log.iterate_batches()]
    log.append(encode_batch(_RECORDS))
    assert log.log_end_offset == end + len(_RECORDS)
    log.close(clean=False)
    again = PartitionLog.open(files, DIRECTORY, LogConfig())
    assert again.log_end_offset == end + len(_RECORDS), "cut bytes returned, or kept bytes are lost"
    assert [batch.header for batch in again.iterate_batches()][:-1] == kept
    again.close()


def open_synced(data: bytes) -> None:
    log = PartitionLog.open(with_file(SEGMENT, data), DIRECTORY, LogConfig(), recovery_point=2**63 - 1)
    assert sum(batch.header.size_bytes for batch in log.iterate_batches()) == len(data)


def verify(data: bytes) -> None:
    files = with_file(SEGMENT, data)
    (log,) = find_logs(files, DIRECTORY)
    for finding in LogVerification(files, log, limit_bytes=UNPACKED_BYTES).find_problems():
        str(finding)


def load(data: bytes) -> None:
    loaded(data).check_invariants()


def load_consumer_group(data: bytes) -> None:
    """A log may have member records that no coordinator writes. groupd loads them unchanged."""
    shard = loaded(data)
    for group_id in shard.list_group_ids():
        request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        assert len(shard.handle(request, Context(1, 1, "", ""), LOADED).replies) == 1


def loaded(data: bytes) -> GroupShard:
    """Load a segment into a shard; its facts give the same state."""
    files = with_file(SEGMENT, data)
    log = PartitionLog.open(files, DIRECTORY, LogConfig())
    shard = new_shard()
    for _ in PartitionLoad(log, shard, files, GroupRecordCodec()).run_steps():
        pass
    shard.on_loaded(LOADED)
    facts = list(shard.snapshot_durable().items())
    copy = new_shard()
    for _ in PartitionLoad(log, copy, files, GroupRecordCodec()).run_steps():
        pass
    assert list(copy.snapshot_durable().items()) == facts
    return shard


def read_record(data: bytes) -> None:
    """A key behind its length, then a value."""
    size = int.from_bytes(data[:2], "big")
    key = decode_key(data[2 : 2 + size])
    if isinstance(key, UnknownKey):
        return
    assert decode_key(encode_key(key)) == key
    raw = data[2 + size :]
    value = decode_value(key, raw)
    assert decode_value(key, encode_value(value, int.from_bytes(raw[:2], "big"))) == value


def read_metadata_log(data: bytes) -> None:
    directory = "/data/__cluster_metadata-0"
    files = FaultyFiles()
    files.mkdir("/data")
    files.mkdir(directory)
    files.write(f"{directory}/{0:020d}.log", data)
    read_cluster_topics(files, "/data")


def stored_targets() -> Iterator[Target]:
    """All of these."""
    yield from batch_targets()
    yield from log_targets()
    yield from file_targets()
