"""The fast reading of keys and values against the ordinary walk: the same records, the same damage."""

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.compression import GZIP, NONE
from storage.key_value_reader import KeyValuePair, KeyValueRun, read_key_values
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.storage_errors import CorruptBatch, LogDamaged
from storage.stored_batch import StoredBatch
from tests.storage.batches import RECORDS, record
from tests.storage.compaction.compacting import COMMIT, compact, marker
from tests.storage.faulty_files import FaultyFiles

DIRECTORY = "/data/log-0"
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, cleanup_policy="compact")


class Batch(NamedTuple):
    """What is appended."""

    records: list[Record]
    codec: int = NONE
    is_transactional: bool = False
    is_control: bool = False


def compressed(records: list[Record]) -> Batch:
    return Batch(records, codec=GZIP)


def transactional(records: list[Record]) -> Batch:
    return Batch(records, is_transactional=True)


SMALL = st.integers(0, 5).map(lambda number: [record(number)])
PLAIN = (RECORDS | SMALL).map(Batch)
OTHERS = st.one_of(
    SMALL.map(compressed),
    SMALL.map(transactional),
    st.just(Batch([marker(COMMIT)], is_transactional=True, is_control=True)),
)
HISTORY = st.lists(PLAIN, max_size=30) | st.lists(PLAIN | OTHERS, max_size=30)


def written(history: list[Batch]) -> tuple[FaultyFiles, PartitionLog]:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, CONFIG)
    for batch in history:
        producer_id = 7 if batch.is_transactional else -1
        data = encode_batch(
            batch.records,
            producer_id=producer_id,
            codec=batch.codec,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
        log.append(data)
    return files, log


Outcome = tuple[list[KeyValuePair], tuple[str, int | None] | None]
"""What is read before damage is met, and where that is."""


def pairs_of(part: KeyValueRun | StoredBatch) -> list[KeyValuePair]:
    return part.pairs if isinstance(part, KeyValueRun) else [(one.key, one.value) for one in part.records()]


def outcome(parts: Iterator[KeyValueRun | StoredBatch]) -> Outcome:
    found: list[KeyValuePair] = []
    try:
        for part in parts:
            try:
                found += pairs_of(part)
            except CorruptBatch:
                return found, (part.path, part.position)
    except LogDamaged as error:
        return found, (error.path, error.position)
    return found, None


def by_pairs(log: PartitionLog, offset: int) -> Outcome:
    return outcome(read_key_values(log, offset))


def by_batches(log: PartitionLog, offset: int) -> Outcome:
    return outcome(iter(log.iterate_batches(offset)))


@given(HISTORY, st.booleans(), st.data())
def test_the_same_records_from_any_offset(history: list[Batch], compacts: bool, data: st.DataObject) -> None:
    _, log = written(history)
    keyed = all(one.key is not None for batch in history for one in batch.records)
    if compacts and keyed:
        compact(log)
    offset = data.draw(st.integers(0, log.log_end_offset))
    assert by_pairs(log, offset) == by_batches(log, offset)


@given(HISTORY, st.data())
def test_a_part_that_ends_before_the_log_does(history: list[Batch], data: st.DataObject) -> None:
    _, log = written(history)
    ends = [log.log_start_offset, *(batch.header.next_offset for batch in log.iterate_batches())]
    end_offset = data.draw(st.sampled_from(ends))
    part = [
        (one.key, one.value)
        for batch in log.iterate_batches()
        if batch.header.next_offset <= end_offset
        for one in batch.records()
    ]
    assert outcome(read_key_values(log, log.log_start_offset, end_offset)) == (part, None)


@given(st.lists(PLAIN | OTHERS, min_size=1, max_size=30), st.data())
def test_the_same_damage(history: list[Batch], data: st.DataObject) -> None:
    files, log = written(history)
    segment = data.draw(st.sampled_from(log.segments))
    if segment.size:
        position = data.draw(st.integers(0, segment.size - 1))
        files.names[segment.path].data[position] ^= data.draw(st.integers(1, 255))
    assert by_pairs(log, 0) == by_batches(log, 0)


def test_a_batch_that_lies_across_two_pieces_of_the_file() -> None:
    """The two pieces together exceed the size of one read."""
    large = LogConfig(segment_bytes=100_000_000)
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, large)
    for number in range(9):
        log.append_records([record(number, size=300_000), record(number)])
    log.append_records([record(10, size=3_000_000)])
    log.append_records([record(11)])
    assert by_pairs(log, 0) == by_batches(log, 0)
    assert len(by_pairs(log, 5)[0]) == len(by_pairs(log, 0)[0]) - 4


def test_keys_of_every_last_byte_with_values_of_many_sizes() -> None:
    """The last byte of a key can look like the length of a value: the keys of commits end with a partition."""
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, LogConfig(segment_bytes=100_000_000))
    for last_byte in range(256):
        log.append_records([Record(-1, 1000, bytes([last_byte]), b"v" * size) for size in range(64)])
    expected = [(bytes([last_byte]), b"v" * size) for last_byte in range(256) for size in range(64)]
    assert by_pairs(log, 0) == (expected, None)


def test_no_run_follows_a_transaction() -> None:
    history = [Batch([record(number)]) for number in range(3)]
    history += [Batch([record(3)], is_transactional=True)]
    history += [Batch([record(number)]) for number in range(100)]
    _, log = written(history)
    assert len(log.segments) > 3
    parts = list(read_key_values(log, 0))
    assert [isinstance(part, KeyValueRun) for part in parts] == [True] + [False] * 101
