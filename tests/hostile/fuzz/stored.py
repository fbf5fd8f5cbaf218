"""Targets: what producers put into batches, and what is read from files that another broker, a crash or a bad disk
left behind.
"""

import json
import struct
from collections.abc import Iterator
from functools import cache
from typing import Final

from coordinator.config.properties_file import parse_properties
from coordinator.engine.loader import Load, LoadFailed
from coordinator.group.record_codec import GroupRecordCodec
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context, Now
from coordinator.topics.cluster_metadata import read_cluster_topics
from protocol.malformed import Malformed
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.records.cluster_metadata import decode_metadata_record
from storage.batch import check_crc, decode_records, encode_batch, read_header, walk_batches
from storage.checkpoint import read_offsets, write_offsets
from storage.checksum import crc32c
from storage.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from storage.data_directory import DataDirectory
from storage.errors import CorruptBatch, DamagedFile, InvalidRecord, LogDamaged
from storage.index import OffsetIndex, TimeIndex
from storage.inspection.directory_reader import find_logs
from storage.inspection.verification import Verification
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.meta_properties import MetaProperties
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot import decode_snapshot, encode_snapshot
from storage.record import Record, decode_record_section, encode_records
from storage.state_file import StatePoint, find_state
from storage.topic_partition import TopicPartition
from storage.transaction_index import read_aborted
from storage.validate import validate_batch
from tests.engine.states import written_state
from tests.group.consumer.members import FOO, Members
from tests.group.new_shard import new_shard
from tests.hostile.fuzz.target import Target
from tests.protocol.declared import full
from tests.storage.batches import keys_and_values
from tests.storage.faulty_files import FaultyFiles

UNPACKED_BYTES: Final = 100_000
"""The most that compressed records may come to here."""
HEADER_BYTES: Final = 61
LATER_MS: Final = 10_000
LOADED: Final = Now(0, 1_000)
_DIRECTORY: Final = "/data/__consumer_offsets-0"
_SEGMENT: Final = f"{_DIRECTORY}/{0:020d}.log"
_RECORDS: Final = [
    Record(-1, 1000, b"key", b"value", (("header", b"h"), ("none", None))),
    Record(-1, 1001, None, b"x" * 200),
    Record(-1, 5, b"", None),
]


def fixed_batches(data: bytes) -> bytes:
    """`data` as batches whose lengths and checksums are right, as far as they can be."""
    out = bytearray(data)
    position = 0
    while len(out) - position >= HEADER_BYTES:
        (length,) = struct.unpack_from(">i", out, position + 8)
        end = position + 12 + length
        if not position + HEADER_BYTES <= end <= len(out):
            end = len(out)
            struct.pack_into(">i", out, position + 8, end - position - 12)
        out[position + 16] = 2
        struct.pack_into(">I", out, position + 17, crc32c(bytes(out[position + 21 : end])))
        position = end
    return bytes(out)


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


def with_file(path: str, data: bytes) -> FaultyFiles:
    """A file system that has one file, and its directories."""
    files = FaultyFiles()
    files.mkdir("/data")
    files.mkdir(_DIRECTORY)
    files.write(path, data)
    return files


def _group_records() -> list[Record]:
    offset = OffsetCommitKey(group="g", topic="t", partition=1)
    group = GroupMetadataKey(group="g")
    metadata = [full(GroupMetadataValue, version) for version in (3, 0)]
    for value in metadata:
        del value.members[1:]  # the second one is the first again
    pairs = [
        (encode_key(offset), encode_value(full(OffsetCommitValue, 3), 3)),
        (encode_key(offset), None),
        (encode_key(group), encode_value(metadata[0], 3)),
        (encode_key(GroupMetadataKey(group="h")), encode_value(metadata[1], 0)),
    ]
    return [Record(-1, 1000, key, value) for key, value in pairs]


def _consumer_group_records() -> list[Record]:
    """A group with all types of records, members of two kinds, and one that has gone."""
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
    records = _group_records()
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
    """Past the recovery point nothing is an error: what makes no sense is cut, and what is left stays."""
    files = with_file(_SEGMENT, data)
    log = PartitionLog.open(files, _DIRECTORY, LogConfig())
    end = log.log_end_offset
    kept = [batch.header for batch in log.batches()]
    log.append(encode_batch(_RECORDS))
    assert log.log_end_offset == end + len(_RECORDS)
    log.close(clean=False)
    again = PartitionLog.open(files, _DIRECTORY, LogConfig())
    assert again.log_end_offset == end + len(_RECORDS), "what was cut is back, or what was kept is gone"
    assert [batch.header for batch in again.batches()][:-1] == kept
    again.close()


def open_synced(data: bytes) -> None:
    log = PartitionLog.open(with_file(_SEGMENT, data), _DIRECTORY, LogConfig(), recovery_point=2**63 - 1)
    assert sum(batch.header.size_bytes for batch in log.batches()) == len(data)


def verify(data: bytes) -> None:
    files = with_file(_SEGMENT, data)
    (log,) = find_logs(files, _DIRECTORY)
    for finding in Verification(files, log, limit_bytes=UNPACKED_BYTES).findings():
        str(finding)


def load(data: bytes) -> None:
    loaded(data).check_invariants()


def load_consumer_group(data: bytes) -> None:
    """A log may say of its members what no coordinator would have written, and they are as it says."""
    shard = loaded(data)
    for group_id in shard.group_ids():
        request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        assert len(shard.handle(request, Context(1, 1, "", ""), LOADED).replies) == 1


def loaded(data: bytes) -> Shard:
    """What a shard makes of a segment; its facts make the same."""
    files = with_file(_SEGMENT, data)
    log = PartitionLog.open(files, _DIRECTORY, LogConfig())
    shard = new_shard()
    for _ in Load(log, shard, files, GroupRecordCodec()).steps():
        pass
    shard.loaded(LOADED)
    facts = list(shard.durable_state().items())
    copy = new_shard()
    for _ in Load(log, copy, files, GroupRecordCodec()).steps():
        pass
    assert list(copy.durable_state().items()) == facts
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


def file_targets() -> Iterator[Target]:
    """Small files."""
    files = with_file("/data/seed", b"")
    write_offsets(files, "/data/seed", {TopicPartition("orders", 0): 1042, TopicPartition("b", 12): 0})
    damage = (DamagedFile,)
    yield Target("checkpoint", (files.read("/data/seed"),), read_checkpoint, damage)
    yield Target("leader epochs", (b"0\n2\n0 0\n3 1042\n",), read_epochs, damage)
    aborted = struct.pack(">hqqqqhqqqq", 0, 7, 1, 9, 9, 0, 8, 2, 12, 13)
    yield Target("transactions", (aborted,), read_transactions, damage)
    yield Target("producers", (_snapshot(),), read_snapshot, damage, _fixed_snapshot)
    yield Target("offset index", (struct.pack(">iiii", 4, 100, 9, 220),), read_offset_index, ())
    yield Target("time index", (struct.pack(">qiqi", 1000, 4, 1001, 9),), read_time_index, ())
    meta = b"#\nversion=1\ncluster.id=abc\nnode.id=1\ndirectory.id=xyz\n"
    yield Target("meta.properties", (meta,), read_meta, damage)
    yield Target(
        "partition.metadata", (b"version: 0\ntopic_id: " + b"A" * 22 + b"\n",), read_topic_id, damage
    )
    yield Target("state", (_state(),), read_state, damage, fixed_batches)
    properties = b"a.b=c\n# no\nname : a \\\n  b\\u00e9\\t\nx\n"
    yield Target("properties", (properties,), read_properties, (ValueError,))


def read_checkpoint(data: bytes) -> None:
    files = with_file("/data/offsets", data)
    offsets = read_offsets(files, "/data/offsets")
    write_offsets(files, "/data/offsets", offsets)
    assert read_offsets(files, "/data/offsets") == offsets


def read_epochs(data: bytes) -> None:
    epochs = LeaderEpochs.read(with_file(f"{_DIRECTORY}/{LEADER_EPOCHS}", data), _DIRECTORY)
    if epochs is not None:
        assert epochs.at(2**62) <= epochs.current


def _snapshot() -> bytes:
    state = ProducerState(1)
    state.record(read_header(encode_batch([Record(-1, 1, b"k", b"v")], producer_id=7, base_sequence=3)), 5, 1)
    state.end(8, 2, 1, 6, 1)
    return encode_snapshot(state)


def _fixed_snapshot(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:] if len(data) > 6 else data


def read_snapshot(data: bytes) -> None:
    state = ProducerState(1)
    state.restore(decode_snapshot(data, "snapshot"))
    assert len(encode_snapshot(state)) <= len(data)


def read_transactions(data: bytes) -> None:
    files = with_file(f"{_DIRECTORY}/{0:020d}.txnindex", data)
    for aborted in read_aborted(files, _DIRECTORY):
        assert 0 <= aborted.first_offset <= aborted.last_offset


def read_offset_index(data: bytes) -> None:
    index = OffsetIndex.decode(10, data, 1 << 30)
    if index is not None:
        assert data.startswith(index.encode())
        assert 0 <= index.lookup(500) <= index.last_position()


def read_time_index(data: bytes) -> None:
    index = TimeIndex.decode(10, data)
    if index is not None:
        assert data.startswith(index.encode())


def read_meta(data: bytes) -> None:
    files = with_file("/data/meta.properties", data)
    new = MetaProperties("cluster", 1, "directory")
    meta = DataDirectory.open(files, "/data", new).meta
    assert isinstance(meta.node_id, int)


def read_topic_id(data: bytes) -> None:
    files = with_file("/data/seed", b"")
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"))
    files.write(f"{_DIRECTORY}/partition.metadata", data)
    topic_id = directory.topic_id(TopicPartition("__consumer_offsets", 0))
    assert topic_id is None or len(topic_id) == 16


@cache
def _log_with_state() -> tuple[FaultyFiles, PartitionLog, str]:
    files = with_file(_SEGMENT, encode_batch(_group_records(), 0))
    log = PartitionLog.open(files, _DIRECTORY, LogConfig())
    point = StatePoint.of(log, log.log_end_offset)
    assert point is not None
    batches = [encode_batch(_group_records())]
    return files, log, written_state(files, log, point, "groups", 4, batches)


@cache
def _state() -> bytes:
    files, log, path = _log_with_state()
    assert find_state(files, log, "groups")[0] is not None
    data = files.read(path)
    assert json.loads(decode_records(data)[0].value or b"")
    return data


def read_state(data: bytes) -> None:
    """A state that is no good is removed, not raised about; its records may still show damage."""
    files, log, path = _log_with_state()
    files.write(path, data)
    state, ignored = find_state(files, log, "groups")
    assert (state is None) == bool(ignored)
    if state is not None:
        assert sum(map(len, state.batches())) == state.records_count


def read_properties(data: bytes) -> None:
    for name, value in parse_properties(data.decode("latin-1")).items():
        assert isinstance(name, str)
        assert isinstance(value, str)


def stored_targets() -> Iterator[Target]:
    """All of these."""
    yield from batch_targets()
    yield from log_targets()
    yield from file_targets()
