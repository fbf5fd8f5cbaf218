"""Logs with consecutively numbered records, so that a test knows the expected content."""

from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.compression import NONE
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=25)


def filled(
    sizes: list[int], config: LogConfig = SMALL, codec: int = NONE
) -> tuple[FaultyFiles, PartitionLog]:
    """A log of batches with these numbers of records, numbered on."""
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/orders-0", config)
    for size in sizes:
        start = log.log_end_offset
        log.append(encode_batch([record(start + number) for number in range(size)], codec=codec))
    return files, log


def contents(log: PartitionLog, from_offset: int | None = None) -> list[Record]:
    """All records, through the loading iterator."""
    return [item for batch in log.iterate_batches(from_offset) for item in batch.records()]


def expected(end: int, start: int = 0) -> list[Record]:
    """The records that `filled` numbers `start` to `end`."""
    return [record(number)._replace(offset=number) for number in range(start, end)]
