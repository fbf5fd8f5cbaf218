"""Offsets that transactions of a real broker left in the log: which of them a load takes."""

import struct
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from coordinator.engine.loader import Load
from coordinator.group.record_codec import GroupRecordCodec
from coordinator.group.shard import Shard
from protocol.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from tests.group.config import group_config
from tests.storage.faulty_files import FaultyFiles

ABORT, COMMIT = 0, 1


class Write(NamedTuple):
    """A record for one partition's offset: of a transaction, where there is a producer; None is a tombstone."""

    partition: int
    offset: int | None
    producer: int = -1


class End(NamedTuple):
    """The marker at the end of a producer's transaction."""

    producer: int
    kind: int


def batch_of(step: Write | End) -> bytes:
    if isinstance(step, End):
        record = Record(-1, 1000, struct.pack(">hh", 0, step.kind), bytes(6))
        return encode_batch(
            [record], producer_id=step.producer, producer_epoch=0, is_transactional=True, is_control=True
        )
    key = encode_key(OffsetCommitKey(group="g", topic="orders", partition=step.partition))
    value = None
    if step.offset is not None:
        value = encode_value(OffsetCommitValue(offset=step.offset, metadata="", commit_timestamp=1000), 3)
    if step.producer < 0:
        return encode_batch([Record(-1, 1000, key, value)], base_sequence=0)
    return encode_batch(
        [Record(-1, 1000, key, value)],
        producer_id=step.producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def loaded(steps: list[Write | End]) -> dict[int, int]:
    """Committed offsets by partition after a load of these records."""
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, "/data/__consumer_offsets-0", LogConfig(cleanup_policy="compact"))
    for step in steps:
        log.append(batch_of(step))
    shard = Shard(group_config())
    for _ in Load(log, shard, files, GroupRecordCodec()).steps():
        pass
    log.close()
    groups = shard.durable_state()
    return {} if not groups else {key[1]: value.offset for key, value in groups["g"].offsets.items()}


def test_what_a_real_broker_makes_of_writes_beside_an_open_transaction() -> None:
    """Seen with Apache Kafka 4.4.0: a plain commit or a deletion meanwhile outlives the transaction's end."""
    first: list[Write | End] = [
        Write(3, 1),
        Write(0, 100, 7),
        Write(1, 100, 7),
        Write(2, 100, 7),
        Write(0, 50),
    ]
    assert loaded(first) == {0: 50, 3: 1}
    first.append(End(7, COMMIT))
    assert loaded(first) == {0: 50, 1: 100, 2: 100, 3: 1}
    second = [*first, Write(3, 300, 7), Write(2, None), Write(3, None), End(7, COMMIT)]
    assert loaded(second) == {0: 50, 1: 100}


def model(steps: list[Write | End]) -> dict[int, int]:
    """The newest record of each partition counts, among those outside of transactions and of committed ones."""
    newest: dict[int, tuple[int, int | None]] = {}
    pending: dict[int, list[tuple[int, Write]]] = {}
    for position, step in enumerate(steps):
        if isinstance(step, Write) and step.producer < 0:
            newest[step.partition] = position, step.offset
        elif isinstance(step, Write):
            pending.setdefault(step.producer, []).append((position, step))
        else:
            ended = pending.pop(step.producer, [])
            for written, write in ended if step.kind == COMMIT else []:
                if newest.get(write.partition, (-1, None))[0] < written:
                    newest[write.partition] = written, write.offset
    return {partition: offset for partition, (_, offset) in newest.items() if offset is not None}


PARTITIONS, PRODUCERS = st.integers(0, 2), st.integers(1, 3)
STEPS = st.one_of(
    st.builds(Write, PARTITIONS, st.one_of(st.none(), st.integers(0, 1000)), st.just(-1)),
    st.builds(Write, PARTITIONS, st.integers(0, 1000), PRODUCERS),
    st.builds(End, PRODUCERS, st.sampled_from([ABORT, COMMIT])),
)


@given(st.lists(STEPS, max_size=30))
def test_the_newest_record_that_counts_wins(steps: list[Write | End]) -> None:
    assert loaded(steps) == model(steps)
