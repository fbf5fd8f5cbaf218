"""Decoders of the small files beside logs, as targets of the fuzzer."""

import json
import struct
from collections.abc import Iterator
from functools import cache

from coordinator.config.properties_file import parse_properties
from storage.batch import decode_records, encode_batch, read_header
from storage.checksum import crc32c
from storage.data_directory import DataDirectory
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.offset_checkpoint import read_offsets, write_offsets
from storage.producers.producer_snapshots import decode_snapshot, encode_snapshot
from storage.producers.producer_state import ProducerState
from storage.record import Record
from storage.segment_index import OffsetIndex, TimeIndex
from storage.state_file import StatePoint, find_state
from storage.storage_errors import DamagedFile
from storage.topic_partition import TopicPartition
from storage.transaction_index import read_aborted_transactions
from tests.hostile.fuzz.samples import (
    DIRECTORY,
    SEGMENT,
    fixed_batches,
    group_records,
    with_file,
)
from tests.hostile.fuzz.target import Target
from tests.runtime.states import written_state
from tests.storage.faulty_files import FaultyFiles


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
    epochs = LeaderEpochs.read(with_file(f"{DIRECTORY}/{LEADER_EPOCHS}", data), DIRECTORY)
    if epochs is not None:
        assert epochs.find_epoch(2**62) <= epochs.current


def _snapshot() -> bytes:
    state = ProducerState(1)
    state.record_batch(
        read_header(encode_batch([Record(-1, 1, b"k", b"v")], producer_id=7, base_sequence=3)), 5, 1
    )
    state.record_marker(8, 2, 1, 6, 1)
    return encode_snapshot(state)


def _fixed_snapshot(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:] if len(data) > 6 else data


def read_snapshot(data: bytes) -> None:
    state = ProducerState(1)
    state.restore(decode_snapshot(data, "snapshot"))
    assert len(encode_snapshot(state)) <= len(data)


def read_transactions(data: bytes) -> None:
    files = with_file(f"{DIRECTORY}/{0:020d}.txnindex", data)
    for aborted in read_aborted_transactions(files, DIRECTORY):
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
    files.write(f"{DIRECTORY}/partition.metadata", data)
    topic_id = directory.find_topic_id(TopicPartition("__consumer_offsets", 0))
    assert topic_id is None or len(topic_id) == 16


@cache
def _log_with_state() -> tuple[FaultyFiles, PartitionLog, str]:
    files = with_file(SEGMENT, encode_batch(group_records(), 0))
    log = PartitionLog.open(files, DIRECTORY, LogConfig())
    point = StatePoint.at_offset(log, log.log_end_offset)
    assert point is not None
    batches = [encode_batch(group_records())]
    return files, log, written_state(files, log, point, "groups", 4, batches)


@cache
def _state() -> bytes:
    files, log, path = _log_with_state()
    assert find_state(files, log, "groups")[0] is not None
    data = files.read(path)
    assert json.loads(decode_records(data)[0].value or b"")
    return data


def read_state(data: bytes) -> None:
    """An invalid state file is removed without an error. Its records may still be damaged."""
    files, log, path = _log_with_state()
    files.write(path, data)
    state, ignored = find_state(files, log, "groups")
    assert (state is None) == bool(ignored)
    if state is not None:
        assert sum(map(len, state.iterate_batches())) == state.records_count


def read_properties(data: bytes) -> None:
    for name, value in parse_properties(data.decode("latin-1")).items():
        assert isinstance(name, str)
        assert isinstance(value, str)
