"""Kinds of damage of a log on disk, and their effects on a start."""

from enum import Enum
from typing import NamedTuple


class FindingKind(Enum):
    """A kind of damage."""

    TORN_TAIL = "torn_tail"
    """The log ends with bytes that are not a valid batch."""
    DAMAGED_BATCH = "damaged_batch"
    """Bytes that are not a valid batch, followed by valid ones."""
    OLD_FORMAT = "old_format"
    """Messages of magic 0 or 1, of a broker before 0.11."""
    UNREADABLE_RECORDS = "unreadable_records"
    """A batch with a valid checksum that does not decompress into its declared records."""
    UNDECODABLE_RECORD = "undecodable_record"
    """A record of `__consumer_offsets` with a key or value that does not match its type."""
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    """An index that does not agree with its segment."""
    TRANSACTION_INDEX = "transaction_index"
    """An index of aborted transactions that does not agree with its segment."""
    PRODUCER_SNAPSHOT = "producer_snapshot"
    """A producer snapshot that is invalid or does not belong to the log."""
    RECOVERY_POINT = "recovery_point"
    """The log ends before the offset up to which it was synced."""
    CHECKPOINT = "checkpoint"
    """A small file beside the log with invalid contents."""
    UNUSABLE_FILE = "unusable_file"
    """A directory, a broken link or a pipe where a file should be, or a file that cannot be read."""
    JOURNAL = "journal"
    """Records of the journal past the end of a log, or an unreadable journal."""


class FindingEffect(Enum):
    """The effect of a finding."""

    STOPS_LOAD = "stops_load"
    """A start that reads the bytes does not load the partition, because it never skips acknowledged records
    silently. A start with a state file reads only the bytes after the state.
    """
    CUT_AT_START = "cut_at_start"
    """The next start truncates the log there. Bytes past the recovery point were not acknowledged."""
    FAILS_READS = "fails_reads"
    """Reads that reach these bytes fail. Other reads do not."""
    MISLEADS_READS = "misleads_reads"
    """Reads may begin in the wrong place and miss records."""
    MISLEADS_COMMITTED_READS = "misleads_committed_reads"
    """Consumers of committed records may get aborted ones, or miss committed ones."""
    REBUILT = "rebuilt"
    """The file is rebuilt when it is needed. Nothing is lost."""
    TAKEN_BACK = "taken_back"
    """The next start, or `groupd log recover`, appends the records to the log."""
    STOPS_START = "stops_start"
    """No process starts on the data directory, because the logs with missing records are unknown."""


class LogFinding(NamedTuple):
    """One problem of a log."""

    kind: FindingKind
    effect: FindingEffect
    path: str
    position: int | None
    """The position in the file in bytes. None: the file as a whole."""
    length: int
    """The number of bad bytes, or 0."""
    offset: int | None
    """The first missing or wrong offset of the log, if known."""
    reason: str


class LogTotals(NamedTuple):
    """Totals of the sound batches of a log."""

    batches: int
    records: int
    bytes: int
    log_end_offset: int
