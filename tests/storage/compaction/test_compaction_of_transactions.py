"""Compaction of a log with an index of aborted transactions: read_committed consumers see the same records."""

from random import Random

import pytest

from storage.producers.end_transaction_marker import parse_marker_type
from storage.transaction_index import read_aborted_transactions
from tests.storage.compaction.compacting import ABORT, committed, compact, values
from tests.storage.compaction.test_compaction import CONFIG, HOUR_MS, fill, put
from tests.storage.faulty_files import CrashError, FaultyFiles
from tests.storage.transactional_log import LEVEL_TWO, TransactionalLog


def test_the_marker_of_an_aborted_transaction_stays_for_those_who_are_told_of_it() -> None:
    transactions = TransactionalLog(FaultyFiles(), CONFIG)
    log = transactions.log
    transactions.data(7, key="aborted")
    transactions.end(7, is_committed=False)
    cleaned_to = 0
    for hours, is_named, has_marker in ((0, True, True), (1, False, True), (2, False, False)):
        fill(log, keys=1)
        cleaned_to = compact(log, cleaned_to, now_ms=hours * HOUR_MS).end_offset
        assert not any(key == b"aborted-0" for key, _ in values(log).values())
        markers = [batch.header.base_offset for batch in log.iterate_batches() if batch.header.is_control]
        named = [each.last_offset for each in transactions.producers.find_aborted_within(0, 2**40)]
        assert (bool(named), bool(markers)) == (is_named, has_marker)
        assert list(read_aborted_transactions(log.files, log.directory)) == list(
            transactions.producers.aborted
        )


def test_a_producer_of_which_only_a_marker_is_known_keeps_it() -> None:
    transactions = TransactionalLog(FaultyFiles(), CONFIG)
    log = transactions.log
    transactions.data(7, key="key")
    transactions.end(7, is_committed=True, level=LEVEL_TWO)
    cleaned_to = 0
    for hours in (0, 1, 2, 3):
        fill(log, keys=1)
        put(log, "key-0", "newest")
        cleaned_to = compact(
            log,
            cleaned_to,
            now_ms=hours * HOUR_MS,
            is_last_of_producer=transactions.producers.state.is_last_batch,
        ).end_offset
    kept = [batch.header for batch in log.iterate_batches() if batch.header.producer_id == 7]
    assert [(header.base_offset, header.is_control, header.producer_epoch) for header in kept] == [
        (1, True, 1)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_compaction_keeps_what_consumers_of_committed_records_see(seed: int) -> None:
    random = Random(seed)
    files = FaultyFiles()
    transactions = TransactionalLog(files, CONFIG)
    cleaned_to = 0
    for number in range(80):
        producer_id = random.randrange(3)
        if random.random() < 0.6:
            transactions.data(producer_id, key=f"key-{random.randrange(4)}")
        elif producer_id in transactions.producers.state.open_transactions:
            transactions.end(producer_id, is_committed=random.random() < 0.4)
        if random.random() < 0.1:
            before, seen = committed(transactions.log), _read_committed(transactions)
            cleaned_to = compact(transactions.log, cleaned_to, now_ms=number * HOUR_MS // 4).end_offset
            assert committed(transactions.log) == before
            indexed = list(read_aborted_transactions(files, transactions.log.directory))
            kept = list(transactions.producers.aborted)
            assert indexed == [
                each for each in kept if each.last_offset < transactions.log.segments[-1].base_offset
            ]
            assert {each.last_offset for each in kept} <= {
                batch.header.base_offset
                for batch in transactions.log.iterate_batches()
                if batch.header.records_count
            }
            assert _read_committed(transactions) == seen
    transactions.log.close()
    seen = _read_committed(transactions)
    transactions.take_up(files, transactions.log.log_end_offset, was_clean=True)
    assert _read_committed(transactions) == seen


@pytest.mark.parametrize(
    "operation", ["replace", "unlink", "fsync_directory", "write_atomically", "fdatasync", "write"]
)
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_crash_in_compaction_leaves_every_aborted_record_named(operation: str, nth: int) -> None:
    files = FaultyFiles()
    transactions = TransactionalLog(files, CONFIG)
    for number in range(8):
        transactions.data(number % 2, key=f"key-{number % 3}")
        transactions.end(number % 2, is_committed=number % 3 == 0)
        transactions.plain(f"plain-{number % 2}")
    recovery_point, before = transactions.sync(), committed(transactions.log)
    files.crash_at(operation, nth)
    try:
        compact(transactions.log)
    except CrashError:
        files.faults.clear()
        transactions.take_up(files.crash(Random(nth)), recovery_point)
    assert _read_committed(transactions) == before == committed(transactions.log)


def _read_committed(ours: TransactionalLog) -> dict[bytes, bytes]:
    """Return the latest value of each key for a consumer that filters by aborted transactions, as Java's does."""
    log = ours.log
    stable = ours.producers.find_last_stable_offset(log.log_end_offset)
    found = sorted(ours.producers.find_aborted_within(0, stable), key=lambda each: each.first_offset)
    latest: dict[bytes, bytes | None] = {}
    aborted: set[int] = set()
    for batch in log.iterate_batches():
        header = batch.header
        if header.base_offset >= stable:
            break
        while found and found[0].first_offset <= header.last_offset:
            aborted.add(found.pop(0).producer_id)
        if header.is_control:
            if any(parse_marker_type(record) == ABORT for record in batch.records()):
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            latest |= {record.key: record.value for record in batch.records() if record.key is not None}
    return {key: value for key, value in latest.items() if value is not None}
