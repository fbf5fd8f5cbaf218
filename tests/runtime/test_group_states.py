"""The law of state files: the newest one and the log after it give the same groups as the whole log."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.outcome import Fact
from coordinator.group.durable_groups import DurableGroups, DurableGroupSnapshot
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.partition_loader import PartitionLoad
from coordinator.runtime.state_keeper import encode_state_batches
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TargetTopicPartitions,
)
from protocol.records.group_record_serde import encode_key, encode_value
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.state_file import STATE_SUFFIX, StatePoint
from tests.group.new_shard import new_shard
from tests.runtime.states import written_state
from tests.storage.compaction.compacting import compact
from tests.storage.faulty_files import FaultyFiles

DIRECTORY = "/data/__consumer_offsets-0"
HOUR_MS = 3_600_000
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, cleanup_policy="compact")


class Write(NamedTuple):
    """A log record: a fact in one of its versions, or None for an unknown type."""

    fact: Fact | None


class TakeState(NamedTuple):
    """A state is written."""


class CutBack(NamedTuple):
    """The log loses its last records, as it may when the power goes."""

    records: int


class Compact(NamedTuple):
    """The sealed segments are compacted, some hours later."""

    hours: int


Step = Write | TakeState | CutBack | Compact

NAMES = st.sampled_from(["a", "b", "ü" * 70])
TEXTS = st.text(max_size=130)
INT64 = st.integers(0, 2**63 - 1)
OFFSET_KEYS = st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=st.integers(0, 2))
GROUP_KEYS = st.builds(GroupMetadataKey, group=NAMES)
EXPIRING = st.builds(
    OffsetCommitValue, offset=INT64, metadata=TEXTS, commit_timestamp=INT64, expire_timestamp=INT64
)
PLAIN = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=st.integers(-1, 9),
    metadata=TEXTS,
    commit_timestamp=INT64,
    topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
)
MEMBERS = st.builds(
    MemberMetadata,
    member_id=TEXTS,
    group_instance_id=st.none() | TEXTS,
    client_id=TEXTS,
    client_host=TEXTS,
    rebalance_timeout=st.integers(-1, 9),
    session_timeout=st.integers(0, 9),
    subscription=st.binary(max_size=9),
    assignment=st.binary(max_size=9),
)
GROUPS = st.builds(
    GroupMetadataValue,
    protocol_type=TEXTS,
    generation=st.integers(0, 9),
    protocol=st.none() | TEXTS,
    leader=st.none() | TEXTS,
    current_state_timestamp=st.integers(-1, 9),
    members=st.lists(MEMBERS, max_size=2),
)
MEMBER_KEYS = {"group_id": st.sampled_from(["c", "d"]), "member_id": st.sampled_from(["m", "n", "ü" * 70])}
TOPIC_IDS = st.sampled_from([bytes(range(16)), bytes(range(1, 17))])
CURRENT = st.builds(
    ConsumerGroupCurrentMemberAssignmentValue,
    member_epoch=st.integers(-2, 9),
    previous_member_epoch=st.integers(-1, 9),
    state=st.sampled_from([0, 1, 2]),
    assigned_partitions=st.lists(
        st.builds(
            CurrentTopicPartitions,
            topic_id=TOPIC_IDS,
            partitions=st.just([0, 3]),
            assignment_epochs=st.just([2, 4]),
        ),
        max_size=1,
    ),
    partitions_pending_revocation=st.just([]),
)
SAID = st.builds(
    ConsumerGroupMemberMetadataValue,
    instance_id=st.none() | st.just("i"),
    rack_id=st.none() | TEXTS,
    client_id=TEXTS,
    client_host=TEXTS,
    subscribed_topic_names=st.lists(NAMES, unique=True),
    subscribed_topic_regex=st.sampled_from(["", "t.*"]),
    rebalance_timeout_ms=st.integers(-1, 9),
    server_assignor=st.none() | st.just("range"),
    classic_member_metadata=st.none(),
)
TARGETS = st.builds(
    ConsumerGroupTargetAssignmentMemberValue,
    topic_partitions=st.lists(
        st.builds(TargetTopicPartitions, topic_id=TOPIC_IDS, partitions=st.just([5, 0])), max_size=1
    ),
)
GROUP_ID = {"group_id": MEMBER_KEYS["group_id"]}
CONSUMER_FACTS = st.one_of(
    st.builds(
        Fact,
        st.builds(ConsumerGroupMetadataKey, **GROUP_ID),
        st.none() | st.builds(ConsumerGroupMetadataValue, epoch=st.integers(1, 9), metadata_hash=INT64),
    ),
    st.builds(
        Fact,
        st.builds(ConsumerGroupTargetAssignmentMetadataKey, **GROUP_ID),
        st.none()
        | st.builds(
            ConsumerGroupTargetAssignmentMetadataValue,
            assignment_epoch=st.integers(1, 9),
            assignment_timestamp=INT64,
        ),
    ),
    st.builds(Fact, st.builds(ConsumerGroupMemberMetadataKey, **MEMBER_KEYS), st.none() | SAID),
    st.builds(Fact, st.builds(ConsumerGroupTargetAssignmentMemberKey, **MEMBER_KEYS), st.none() | TARGETS),
    st.builds(Fact, st.builds(ConsumerGroupCurrentMemberAssignmentKey, **MEMBER_KEYS), st.none() | CURRENT),
    st.builds(
        Fact,
        st.builds(ConsumerGroupRegularExpressionKey, regular_expression=st.just("t.*"), **GROUP_ID),
        st.none()
        | st.builds(
            ConsumerGroupRegularExpressionValue,
            topics=st.just(["t", "ü"]),
            version=INT64,
            timestamp=INT64,
        ),
    ),
)
FACTS = st.one_of(
    CONSUMER_FACTS,
    st.builds(Fact, OFFSET_KEYS, EXPIRING, st.just(1)),
    st.builds(Fact, OFFSET_KEYS, PLAIN, st.just(4)),
    st.builds(Fact, GROUP_KEYS, GROUPS, st.sampled_from([3, 4])),
    st.builds(Fact, OFFSET_KEYS | GROUP_KEYS, st.none()),
)
STEPS = st.lists(
    st.one_of(
        st.builds(Write, FACTS),
        st.builds(Write, st.none() | FACTS),
        st.builds(TakeState),
        st.builds(Compact, st.sampled_from([0, 1, 25])),
        st.builds(CutBack, st.integers(1, 5)),
    ),
    max_size=25,
)


class FilesWithoutStates(FaultyFiles):
    """The same files, but for those of states."""

    def __init__(self, files: FaultyFiles) -> None:
        super().__init__()
        self.names = {path: inode for path, inode in files.names.items() if STATE_SUFFIX not in path}


def loaded(
    log: PartitionLog, files: FaultyFiles
) -> tuple[dict[str, DurableGroupSnapshot], PartitionLoad[GroupShard]]:
    shard = new_shard()
    reading = PartitionLoad(log, shard, files, GroupRecordCodec())
    list(reading.run_steps())
    return shard.snapshot_durable(), reading


def offset_value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)


def take_state(log: PartitionLog, files: FaultyFiles) -> None:
    shard = new_shard()
    list(PartitionLoad(log, shard, files, GroupRecordCodec()).run_steps())
    point = StatePoint.at_offset(log, log.log_end_offset)
    if point is not None:
        state = shard.copy_durable()
        written_state(
            files,
            log,
            point,
            GroupRecordCodec().contents,
            len(state),
            list(encode_state_batches(state, GroupRecordCodec())),
        )


def raw(fact: Fact | None) -> Record:
    if fact is None:
        return Record(-1, 0, b"\0\x0bshare", b"\0\0state")
    value = None if fact.value is None else encode_value(fact.value, fact.value_version)
    return Record(-1, 0, encode_key(fact.key), value)


@given(STEPS)
def test_a_state_and_what_follows_make_what_the_whole_log_makes(steps: list[Step]) -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, CONFIG)
    now_ms = 0
    for step in steps:
        if isinstance(step, Write):
            log.append_records([raw(step.fact)])
        elif isinstance(step, TakeState):
            take_state(log, files)
        elif isinstance(step, Compact):
            before = loaded(log, FilesWithoutStates(files))[0]
            now_ms += step.hours * HOUR_MS
            log.cleaned_offset = compact(log, log.cleaned_offset, now_ms).end_offset
            assert loaded(log, files)[0] == before
        else:
            log.truncate_to(max(log.cleaned_offset, log.log_end_offset - step.records))
        assert loaded(log, files)[0] == loaded(log, FilesWithoutStates(files))[0]


@pytest.mark.parametrize("by", ["groupd", "broker"])
def test_no_state_brings_back_what_was_deleted_after_it(by: str) -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, CONFIG)
    gone = OffsetCommitKey(group="gone", topic="t", partition=0)
    idle = OffsetCommitKey(group="idle", topic="t", partition=0)
    busy = OffsetCommitKey(group="busy", topic="t", partition=0)

    def write(key: OffsetCommitKey, offset: int | None) -> None:
        value = None
        if offset is not None:
            value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
        log.append_records([raw(Fact(key, value, 3))])

    write(gone, 1)
    write(idle, 2)
    take_state(log, files)
    (state,) = [path for path in files.names if path.endswith(STATE_SUFFIX)]
    kept = files.read(state)
    write(gone, None)
    cleaned_to = 0
    for hours in (0, 25, 50):
        for offset in range(30):
            write(busy, offset)
        cleaned_to = compact(log, cleaned_to, hours * HOUR_MS).end_offset
    assert all(record.value for batch in log.iterate_batches() for record in batch.records()), (
        "a tombstone is left"
    )
    assert not files.exists(state)
    if by == "broker":  # one that knows nothing of states, but records how far it has compacted
        files.write(state, kept)
        log.cleaned_offset = cleaned_to
    assert set(loaded(log, files)[0]) == {"idle", "busy"}


@given(st.lists(FACTS, max_size=20))
def test_the_facts_of_a_state_make_it_again(facts: list[Fact]) -> None:
    state, again = DurableGroups(), DurableGroups()
    for fact in facts:
        state.replay(fact)
    copied = state.copy()
    for fact in state.facts():
        again.replay(fact)
    assert again.snapshot() == state.snapshot() == copied.snapshot()
    assert len(list(state.facts())) == len(state) == len(again)
    state.replay(Fact(OffsetCommitKey(group="new", topic="t", partition=0), None))
    state.replay(Fact(GroupMetadataKey(group="a"), None))
    assert copied.snapshot() == again.snapshot()


def test_only_what_follows_the_state_is_read() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, CONFIG)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for number in range(300):
        value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=0)
        log.append_records([raw(Fact(key, value, 3))])
        if number == 289:
            take_state(log, files)
    state, reading = loaded(log, files)
    assert state["g"].offsets["t", 0].offset == 299
    assert (reading.state_end_offset, reading.records) == (290, 1 + 10)


EARLIER_CONTENTS = "groups, of record types 0 to 2"
"""Of a daemon that served no consumer groups."""


def test_the_state_of_a_daemon_without_consumer_groups_is_not_believed() -> None:
    """What it left out is in the log alone."""
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, CONFIG)
    commit = Fact(OffsetCommitKey(group="g", topic="t", partition=0), offset_value(1), 3)
    epoch = ConsumerGroupMetadataValue(epoch=7, metadata_hash=5)
    log.append_records([raw(Fact(ConsumerGroupMetadataKey(group_id="g"), epoch)), raw(commit)])
    wanted, _ = loaded(log, files)
    point = StatePoint.at_offset(log, log.log_end_offset)
    assert point is not None
    without = DurableGroups()
    without.replay(commit)
    batches = list(encode_state_batches(without, GroupRecordCodec()))
    path = written_state(files, log, point, EARLIER_CONTENTS, len(without), batches)
    found, reading = loaded(log, files)
    assert found == wanted
    assert found["g"].is_consumer
    assert (reading.state_end_offset, reading.records) == (0, 2)
    assert reading.warnings
    assert not files.exists(path)
