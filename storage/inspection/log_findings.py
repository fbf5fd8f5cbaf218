"""What may be wrong with a log on disk, and what that means to whoever starts on it."""

from enum import Enum
from typing import NamedTuple


class FindingKind(Enum):
    """What is wrong."""

    TORN_TAIL = "torn_tail"
    """The last bytes of the log are no sound batch."""
    DAMAGED_BATCH = "damaged_batch"
    """Bytes that are no sound batch, with sound ones behind them."""
    OLD_FORMAT = "old_format"
    """Messages of magic 0 or 1, of a broker before 0.11."""
    UNREADABLE_RECORDS = "unreadable_records"
    """A batch whose checksum holds and that does not unpack into the records it announces."""
    UNDECODABLE_RECORD = "undecodable_record"
    """A record of `__consumer_offsets` whose key or value is not what its type says."""
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    """An index that does not agree with its segment."""
    TRANSACTION_INDEX = "transaction_index"
    """An index of aborted transactions that does not agree with its segment."""
    PRODUCER_SNAPSHOT = "producer_snapshot"
    """A snapshot of what a log knows of its producers that is none, or not of this log."""
    RECOVERY_POINT = "recovery_point"
    """The log ends before the offset up to which it was synced."""
    CHECKPOINT = "checkpoint"
    """A small file beside the log that makes no sense."""
    UNUSABLE_FILE = "unusable_file"
    """A directory, a broken link or a pipe where a file should be, or a file that cannot be read."""
    JOURNAL = "journal"
    """What the journal has past the end of a log, or a journal that cannot be read."""


class FindingEffect(Enum):
    """What comes of it."""

    STOPS_LOAD = "stops_load"
    """A start that reads it does not load the partition: what was acknowledged is never skipped silently. (One that
    has a state of what lies before reads only the rest.)
    """
    CUT_AT_START = "cut_at_start"
    """The log is cut there at the next start: what lies past the recovery point was promised to nobody."""
    FAILS_READS = "fails_reads"
    """Reads that come there fail, others do not."""
    MISLEADS_READS = "misleads_reads"
    """Reads may begin in the wrong place and miss records."""
    MISLEADS_COMMITTED_READS = "misleads_committed_reads"
    """Consumers of committed records may get aborted ones, or miss committed ones."""
    REBUILT = "rebuilt"
    """It is made anew when it is needed; nothing is lost."""
    TAKEN_BACK = "taken_back"
    """The next start appends it to the log, or `groupd log recover`."""
    STOPS_START = "stops_start"
    """Nothing starts on the data directory: nobody can tell whose records are missing."""


class LogFinding(NamedTuple):
    """One thing that is wrong with a log."""

    kind: FindingKind
    effect: FindingEffect
    path: str
    position: int | None
    """Byte in the file, None where the file as a whole is meant."""
    length: int
    """How many bytes are bad, 0 where none are."""
    offset: int | None
    """Where in the log: the first offset that is missing or wrong, as far as it is known."""
    reason: str


class LogTotals(NamedTuple):
    """What of a log was sound."""

    batches: int
    records: int
    bytes: int
    log_end_offset: int
