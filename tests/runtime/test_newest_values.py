"""What a load takes from a log, against the plain rule: the later record of a key wins, a tombstone removes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.outcome import Fact
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.runtime.partition_loader import LoadFailed, MissingKey, NewestValues, PartitionLoad
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import Key, Value, encode_key, encode_value
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from tests.group.new_shard import new_shard
from tests.storage.faulty_files import FaultyFiles

NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.one_of(
    st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=st.integers(0, 2)),
    st.builds(GroupMetadataKey, group=NAMES),
)


def value_of(key: Key, number: int) -> Value:
    if isinstance(key, GroupMetadataKey):
        return GroupMetadataValue(protocol_type="", generation=number, protocol=None, leader=None, members=[])
    return OffsetCommitValue(offset=number, metadata="", commit_timestamp=0)


def record(key: Key, number: int | None, is_old: bool) -> Record:
    raw = encode_key(key)
    if is_old and isinstance(key, OffsetCommitKey):
        raw = b"\0\0" + raw[2:]  # as Kafka 0.8 wrote it
    return Record(0, 0, raw, None if number is None else encode_value(value_of(key, number), 3))


HISTORY = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 99), st.booleans()), max_size=40)


def opened() -> tuple[FaultyFiles, PartitionLog]:
    files = FaultyFiles()
    files.mkdir("/data")
    config = LogConfig(cleanup_policy="compact")
    return files, PartitionLog.open(files, "/data/__consumer_offsets-0", config)


@given(HISTORY, st.integers(1, 7))
def test_a_load_gives_what_replaying_every_record_gives(
    history: list[tuple[Key, int | None, bool]], batch_size: int
) -> None:
    state = DurableGroups()
    files, log = opened()
    for key, number, _ in history:
        state.replay(Fact(key, None if number is None else value_of(key, number), 3))
    for start in range(0, len(history), batch_size):
        log.append_records([record(*entry) for entry in history[start : start + batch_size]])
    shard = new_shard()
    *_, records = PartitionLoad(log, shard, files, GroupRecordCodec()).run_steps()
    assert shard.snapshot_durable() == state.snapshot()
    assert records == len(history)


def test_types_that_are_not_known_are_noted_and_not_kept() -> None:
    newest = NewestValues(GroupRecordCodec())
    newest.apply_records([(b"\0\x0bshare", b"\0\0state")] * 3)
    assert (len(newest), list(newest.unknown_types)) == (0, [11])


def test_a_record_without_a_key_is_no_record_of_a_group() -> None:
    with pytest.raises(MissingKey):
        NewestValues(GroupRecordCodec()).apply_records([(None, b"\0\0")])


@pytest.mark.parametrize(
    "bad",
    [
        Record(0, 0, None, b"\0\0"),
        Record(0, 0, b"\0\1\0\5g", b"\0\3"),
        Record(0, 0, encode_key(GroupMetadataKey(group="g")), b"\0\4\0"),
        Record(0, 0, encode_key(GroupMetadataKey(group="g")), b"\0\x63"),
    ],
    ids=["no key", "torn key", "torn value", "value of the future"],
)
def test_what_cannot_be_a_group_stops_the_load(bad: Record) -> None:
    files, log = opened()
    log.append_records([bad])
    with pytest.raises(LoadFailed):
        list(PartitionLoad(log, new_shard(), files, GroupRecordCodec()).run_steps())
    if bad.key is not None and bad.value is not None and bad.key.startswith(b"\0\2"):
        # A compaction would have removed it.
        log.append_records([bad._replace(value=None)])
        list(PartitionLoad(log, new_shard(), files, GroupRecordCodec()).run_steps())
