"""Offsets of transactions: which of them count, whether they are read from a log or replayed one by one."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core.outcome import Fact
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.partition_loader import PartitionLoad
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from tests.group.new_shard import new_shard
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
    key, value = GroupRecordCodec().encode(fact_of(step))
    if step.producer < 0:
        return encode_batch([Record(-1, 1000, key, value)], base_sequence=0)
    return encode_batch(
        [Record(-1, 1000, key, value)],
        producer_id=step.producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def fact_of(step: Write) -> Fact:
    key = OffsetCommitKey(group="g", topic="orders", partition=step.partition)
    if step.offset is None:
        return Fact(key, None)
    return Fact(key, OffsetCommitValue(offset=step.offset, metadata="", commit_timestamp=1000), 3)


def loaded_shard(steps: Sequence[Write | End]) -> GroupShard:
    """Write these steps to a log; return a shard that has loaded it."""
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, "/data/__consumer_offsets-0", LogConfig(cleanup_policy="compact"))
    for step in steps:
        log.append(batch_of(step))
    shard = new_shard()
    for _ in PartitionLoad(log, shard, files, GroupRecordCodec()).run_steps():
        pass
    log.close()
    return shard


def replay(shard: GroupShard, steps: Sequence[Write | End]) -> None:
    """The same records, one by one."""
    for step in steps:
        if isinstance(step, Write):
            shard.replay(fact_of(step), step.producer)
        else:
            shard.end_transaction(step.producer, is_committed=step.kind == COMMIT)


def offsets_of(shard: GroupShard) -> dict[int, int]:
    """Committed offsets by partition."""
    groups = shard.snapshot_durable()
    return {} if not groups else {key[1]: value.offset for key, value in groups["g"].offsets.items()}


def loaded(steps: Sequence[Write | End]) -> dict[int, int]:
    """Committed offsets by partition after a load of these records."""
    return offsets_of(loaded_shard(steps))


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


def model(steps: Sequence[Write | End]) -> dict[int, int]:
    """The newest record of each partition counts, among those outside of transactions and of committed ones; and a
    tombstone does so at once, wherever it is from."""
    newest: dict[int, tuple[int, int | None]] = {}
    pending: dict[int, list[tuple[int, Write]]] = {}
    for position, step in enumerate(steps):
        if isinstance(step, Write) and (step.producer < 0 or step.offset is None):
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
OFFSETS = st.one_of(st.none(), st.integers(0, 1000))
STEPS = st.lists(
    st.one_of(
        st.builds(Write, PARTITIONS, OFFSETS, st.just(-1)),
        st.builds(Write, PARTITIONS, OFFSETS, PRODUCERS),
        st.builds(End, PRODUCERS, st.sampled_from([ABORT, COMMIT])),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_newest_record_that_counts_wins(steps: list[Write | End]) -> None:
    shard = new_shard()
    replay(shard, steps)
    assert offsets_of(shard) == loaded(steps) == model(steps)


@given(STEPS, STEPS)
@example([Write(0, 5, 7), Write(0, 9)], [End(7, COMMIT)])
@example([Write(0, 9), Write(0, 5, 7)], [End(7, COMMIT)])
@example([Write(0, 1, 7), Write(0, 2, 8), End(8, COMMIT)], [End(7, COMMIT)])
@example([Write(0, 1, 7), Write(0, 2, 8)], [End(8, COMMIT), End(7, COMMIT)])
@example([Write(0, 1, 7), Write(0, 2, 8)], [End(7, COMMIT), End(8, COMMIT)])
def test_what_is_pending_at_the_end_of_a_log_ends_as_if_it_had_been_replayed(
    before: list[Write | End], after: list[Write | End]
) -> None:
    shard, replayed = loaded_shard(before), new_shard()
    replay(replayed, before)
    assert shard.snapshot_durable() == replayed.snapshot_durable()
    replay(shard, after)
    replay(replayed, after)
    assert shard.snapshot_durable() == replayed.snapshot_durable()
    assert offsets_of(shard) == model([*before, *after])
    assert shard.has_open_transactions == replayed.has_open_transactions
    shard._groups.durable.offsets.check_invariants()


def test_a_deletion_takes_a_pending_offset_along() -> None:
    """Seen with Apache Kafka 4.4.0: the marker then changes nothing."""
    pending, deleted = new_shard(), new_shard()
    replay(pending, [Write(0, 5, 7)])
    assert pending.has_open_transactions
    assert pending.snapshot_durable()["g"].pending[7, "orders", 0].offset == 5
    replay(deleted, [Write(0, 5, 7), Write(0, None)])
    assert not deleted.has_open_transactions
    replay(deleted, [End(7, COMMIT)])
    assert deleted.snapshot_durable() == {}
