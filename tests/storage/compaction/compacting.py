"""Helpers to run a compaction in a test and to read the resulting log."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress

from storage.compaction.compaction import Compaction, CompactionResult, find_log_to_clean
from storage.compaction.compaction_filter import CompactionTerms, IsLastOfProducer
from storage.compaction.compaction_steps import CompactionSteps
from storage.log import PartitionLog
from storage.record import Record
from storage.stored_batch import StoredBatch
from tests.storage.faulty_files import CrashError

ABORT, COMMIT = 0, 1


def marker(kind: int) -> Record:
    """The control record that ends a transaction."""
    return Record(-1, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))


def compact(
    log: PartitionLog,
    cleaned_to: int = 0,
    now_ms: int = 0,
    *,
    max_keys: int = 1000,
    is_last_of_producer: IsLastOfProducer = lambda _: False,
) -> CompactionResult:
    """Run one full compaction of all cleanable segments, and make it durable first."""
    log.sync()
    todo = find_log_to_clean(log, cleaned_to, log.log_end_offset, now_ms)
    terms = CompactionTerms(now_ms, log.config.delete_retention_ms, is_last_of_producer)
    compaction = Compaction(log, todo, terms, max_keys)
    run(compaction.iterate_steps())
    assert compaction.result is not None
    return compaction.result


def run(steps: CompactionSteps) -> None:
    """A pass to its end, in this thread."""
    try:
        step = next(steps)
        while True:
            if step is not None:
                try:
                    step()
                except OSError as error:
                    step = steps.throw(error)
                    continue
            step = next(steps)
    except StopIteration:
        return
    finally:
        with suppress(CrashError):  # a dead process cleans nothing up
            steps.close()


def committed(log: PartitionLog) -> dict[bytes, bytes]:
    """Return the latest committed value of each key, as a load of the log sees it.

    A transaction counts at its commit, in offset order; an open one does not count.
    """
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    pending: dict[int, list[Record]] = {}
    for batch in log.iterate_batches():
        header = batch.header
        if header.is_control:
            for record in batch.records():
                assert record.key is not None
                ended = pending.pop(header.producer_id, [])
                if struct.unpack(">hh", record.key)[1] == COMMIT:
                    _apply(latest, ended)
        elif header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(batch.records())
        else:
            _apply(latest, batch.records())
    return {key: value for key, (_, value) in latest.items() if value is not None}


def _apply(latest: dict[bytes, tuple[int, bytes | None]], records: list[Record]) -> None:
    for record in records:
        assert record.key is not None
        if record.offset >= latest.get(record.key, (-1, None))[0]:
            latest[record.key] = (record.offset, record.value)


def records(log: PartitionLog) -> list[Record]:
    """Every record that is there, markers left out."""
    return [
        record for batch in log.iterate_batches() if not batch.header.is_control for record in batch.records()
    ]


def values(log: PartitionLog) -> Mapping[int, tuple[bytes | None, bytes | None]]:
    """Key and value of every record that is there, by offset."""
    return {record.offset: (record.key, record.value) for record in records(log)}


def stored(log: PartitionLog) -> Iterator[StoredBatch]:
    """Every batch of the sealed segments."""
    for segment in log.segments[:-1]:
        yield from segment.walk(check=True)
