"""The state of a log up to an offset, kept beside the log, so that a load need not read the earlier part.

    00000000000000123456.state         the offset of the first record that the state does not include

A state file is a sequence of record batches with checksums. It has no information beyond that of the log, so
it may be deleted at any time, and the next load takes longer. The first batch has one record with these
fields:

    contents             the meaning of the records; a file with another meaning is ignored
    end_offset           the offset of the file name
    log_start_offset     of the log when the state was taken
    last_crc             checksum of the batch that ends at the end of the state
    records              the number of the following records

A state is valid only while the log still has that batch at that place. The state is not used for a log that
was cut and grew again, was restored or repaired, begins elsewhere, or whose batch was rewritten by a
compaction. It is not used after a compaction beyond the state either, because a tombstone for one of its keys
may be gone. Compaction removes such states before it removes records, also one that is being written. The
cleaner checkpoint reveals a compaction by a Kafka broker. The file is written, synced, and renamed into
place; then older files are removed.

Kafka ignores the suffix (unlike `.log`, `.index`, `.snapshot`, …), so a broker leaves the file alone.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from storage.batch import check_crc, decode_records, encode_batch, read_header
from storage.files import TEMPORARY_SUFFIX, Files
from storage.log import PartitionLog
from storage.record import UNASSIGNED_OFFSET, Record
from storage.segment import format_segment_name
from storage.storage_errors import CorruptBatch, DamagedFile, StorageError, format_error_reason

STATE_SUFFIX: Final = ".state"

_HEADER_KEY: Final = b"state"
_FORMAT: Final = 1
_NO_TIMESTAMP: Final = -1


class StatePoint(NamedTuple):
    """A place in a log, and the data that prove that the log is still the same up to there."""

    end_offset: int
    log_start_offset: int
    last_crc: int

    @classmethod
    def at_offset(cls, log: PartitionLog, end_offset: int) -> "StatePoint | None":
        """Return the point at `end_offset`, or None if no batch ends there. Raises LogDamaged, OSError."""
        if not log.log_start_offset < end_offset <= log.log_end_offset:
            return None
        for batch in log.iterate_batches(end_offset - 1):
            if batch.header.next_offset != end_offset:
                return None
            return cls(end_offset, log.log_start_offset, batch.header.crc)
        return None


class StateFile(NamedTuple):
    """A state file that fits its log. Its records are not read yet."""

    path: str
    end_offset: int
    records_count: int
    data: bytes

    def iterate_batches(self) -> Iterator[list[Record]]:
        """Yield the records, batch by batch. Raises DamagedFile, at the latest at the end; then none of the
        records is valid."""
        position, found = _decode_first_batch(self.path, self.data)[1], 0
        while position < len(self.data):
            records, position = _decode_batch(self.path, self.data, position)
            found += len(records)
            yield records
        if found != self.records_count:
            raise DamagedFile(self.path, f"has {found} of {self.records_count} records")


def encode_state_header(point: StatePoint, contents: str, records_count: int) -> bytes:
    """Return the first batch of a state file; the batches with the records follow.

    `point` is the place in the log, `contents` the meaning of the records, and `records_count` their number.
    """
    assert point.log_start_offset < point.end_offset, point
    header = {
        "format": _FORMAT,
        "contents": contents,
        **point._asdict(),
        "records": records_count,
    }
    return encode_batch([Record(UNASSIGNED_OFFSET, _NO_TIMESTAMP, _HEADER_KEY, json.dumps(header).encode())])


def format_state_path(log: PartitionLog, end_offset: int) -> str:
    """Return the path of the state file of a log up to an offset."""
    return f"{log.directory}/{format_segment_name(end_offset)}{STATE_SUFFIX}"


def is_state_file(name: str) -> bool:
    """Return whether a file has the name of a state file, finished or being written."""
    return name.endswith((STATE_SUFFIX, STATE_SUFFIX + TEMPORARY_SUFFIX))


def find_state(files: Files, log: PartitionLog, contents: str) -> tuple[StateFile | None, list[str]]:
    """Return the state of a log that saves most reading, and a line about each invalid file.

    `contents` is the required meaning of the records. Invalid files are removed if the file system allows it.
    Raises OSError, LogDamaged.
    """
    ignored: list[str] = []
    found: StateFile | None = None
    for path in sorted(_list_states(files, log.directory), reverse=True):
        if found is None and not path.endswith(TEMPORARY_SUFFIX):
            try:
                found = _read_state(files, log, path, contents)
                continue
            except StorageError as error:
                ignored.append(str(error))
        try:
            files.unlink(path)
        except OSError as error:
            ignored.append(f"{path}: cannot be removed: {format_error_reason(error, path)}")
    return found, ignored


def remove_states(files: Files, directory: str, end_offset: int) -> bool:
    """Remove the states that end before an offset. Return whether there were any. Raises OSError."""
    name = format_segment_name(end_offset)
    stale = [path for path in _list_states(files, directory) if os.path.basename(path) < name]
    for path in stale:
        files.unlink(path)
    return bool(stale)


def has_state(files: Files, log: PartitionLog, end_offset: int) -> bool:
    """Return whether the state file for this end offset still exists."""
    return files.exists(format_state_path(log, end_offset))


def _list_states(files: Files, directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in files.listdir(directory) if is_state_file(name)]


def _read_state(files: Files, log: PartitionLog, path: str, contents: str) -> StateFile:
    data = files.read(path)
    header, _ = _decode_first_batch(path, data)
    if header.get("format") != _FORMAT or header.get("contents") != contents:
        raise DamagedFile(path, f"has the state of {header.get('contents')!r}, not of {contents!r}")
    try:
        point = StatePoint(*(int(header[name]) for name in StatePoint._fields))
        state = StateFile(path, point.end_offset, int(header["records"]), data)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, f"has an invalid header: {error!r}") from error
    if point.end_offset < log.cleaned_offset:
        raise DamagedFile(path, f"is older than the compaction up to offset {log.cleaned_offset}")
    if StatePoint.at_offset(log, point.end_offset) != point:
        extent = f"offsets {log.log_start_offset} to {log.log_end_offset}"
        raise DamagedFile(path, f"does not fit the current log, {extent}")
    return state


def _decode_first_batch(path: str, data: bytes) -> tuple[dict[str, Any], int]:
    records, position = _decode_batch(path, data, 0)
    if len(records) != 1 or records[0].key != _HEADER_KEY:
        raise DamagedFile(path, "has no header of a state file")
    try:
        header = json.loads(records[0].value or b"")
    except ValueError as error:
        raise DamagedFile(path, f"has a header that is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise DamagedFile(path, "has a header without fields")
    return header, position


def _decode_batch(path: str, data: bytes, position: int) -> tuple[list[Record], int]:
    """Return the records of the batch at `position`, and the position of the next batch."""
    try:
        header = read_header(data, position)
        check_crc(data, position, header)
        end = position + header.size_bytes
        return decode_records(data[position:end], header), end
    except CorruptBatch as error:
        raise DamagedFile(path, f"byte {position}: {error.reason}") from error
