"""A log that a crash has cut gets back what the journal has of it.

What counts is where the log ends after recovery has cut its torn tail. What the journal has below that is there, or
was compacted since; it is passed over. What begins there is appended, byte for byte, at the offsets that it was
promised. What begins later does not join: something between was on the disk once, and is not any more.
"""

from collections.abc import Iterable

from storage.batch import read_header
from storage.errors import CorruptBatch, LogDamaged
from storage.files import Files
from storage.journal.frame import Entry, batches_of
from storage.log_config import LogConfig
from storage.segment import Segment


def replay(
    files: Files, directory: str, segments: list[Segment], entries: Iterable[Entry], config: LogConfig
) -> int:
    """Appends what is missing, with new segments where they are due.

    In: all segments of a log, the last of them with its indexes; entries by offset. Out: the bytes that were
    missing. Raises LogDamaged, OSError.
    """
    missing_bytes = 0
    for entry in entries:
        if entry.end_offset <= segments[-1].next_offset:
            continue
        try:
            for base_offset, next_offset, data in batches_of(entry):
                active, end_offset = segments[-1], segments[-1].next_offset
                if next_offset <= end_offset:
                    continue
                if base_offset != end_offset:
                    reason = f"ends at offset {end_offset}, and the journal goes on at {base_offset}"
                    raise LogDamaged(active.path, reason, active.size)
                latest_ms = read_header(data).max_timestamp_ms
                if active.is_full(len(data), next_offset - 1, latest_ms, config):
                    active.write_indexes()
                    active = Segment.create(files, directory, end_offset)
                    segments.append(active)
                active.append(data, base_offset, next_offset - 1, latest_ms, config.index_interval_bytes)
                missing_bytes += len(data)
        except CorruptBatch as error:
            reason = f"what the journal has from offset {entry.base_offset} on: {error.reason}"
            raise LogDamaged(directory, reason, error.position) from error
    return missing_bytes
