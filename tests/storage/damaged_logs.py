"""Logs written by the engine and then damaged, and the records that a simple reader still finds."""

from collections.abc import Iterable

from hypothesis import strategies as st

from storage.inspection.log_findings import LogFinding
from storage.inspection.log_reader import LogListing, find_logs
from storage.inspection.verification import LogVerification
from storage.log import PartitionLog
from storage.offset_checkpoint import RECOVERY_POINTS, write_offsets
from storage.record import Record
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles
from tests.storage.numbered_log import SMALL, filled

DATA = "/data"
NAME = TopicPartition("orders", 0)
DIRECTORY = f"{DATA}/{NAME}"
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=25)


def stored(sizes: list[int], recovery_point: int | None = None) -> tuple[FaultyFiles, list[StoredBatch]]:
    """A closed log of several segments in a data directory, synced up to its end or to a lower offset."""
    files, log = filled(sizes)
    log.close()
    batches = list(log.iterate_batches())
    point = log.log_end_offset if recovery_point is None else recovery_point
    write_offsets(files, f"{DATA}/{RECOVERY_POINTS}", {NAME: point})
    return files, batches


def flip(files: FaultyFiles, batch: StoredBatch, at: int = 40) -> None:
    """Spoils one byte of a batch, on the disk too."""
    inode = files.names[batch.path]
    inode.data[batch.position + at] ^= 0x5A
    inode.dirty_from = 0
    inode.persist()


def sync_all(files: FaultyFiles) -> None:
    """Make the present state durable."""
    for inode in files.names.values():
        inode.dirty_from = 0
        inode.persist()
    files.disk_names = dict(files.names)


def the_log(files: FaultyFiles) -> LogListing:
    (log,) = find_logs(files, DIRECTORY)
    return log


def records_of(batches: Iterable[StoredBatch]) -> list[Record]:
    return [item for batch in batches for item in batch.records()]


def findings(files: FaultyFiles) -> list[LogFinding]:
    return list(LogVerification(files, the_log(files)).find_problems())


def opened(files: FaultyFiles, recovery_point: int) -> list[Record]:
    """What the engine reads of the log; it can be appended to as well. Raises LogDamaged."""
    log = PartitionLog.open(files, DIRECTORY, SMALL, recovery_point=recovery_point)
    contents = records_of(log.iterate_batches())
    end_offset = log.log_end_offset
    assert log.append_records([record(end_offset)]).base_offset == end_offset
    return contents
