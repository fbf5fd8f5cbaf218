"""Finds records of a journal that are missing in its logs, for programs that inspect a data directory.

The segments of a running or killed process have all records. Only a power failure can remove records from them
that the journal has. The next start adds these records, and truncates a log by the rules of
`storage/recovery`, which also apply here. A directory in use is not checked, because the process overwrites
its journal meanwhile.
"""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from storage.data_directory import LOCK_FILE
from storage.files import Files
from storage.inspection.log_findings import FindingEffect, FindingKind, LogFinding
from storage.inspection.log_reader import LogListing, find_data_directory
from storage.inspection.segment_scan import BadBytes, SegmentScan
from storage.journal.journal import JOURNAL
from storage.journal.journal_frame import JournalEntry, split_batches
from storage.journal.leftover_journal import LeftoverEntries, read_leftover_entries
from storage.metadata_files import read_topic_id
from storage.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.storage_errors import CorruptBatch, DamagedFile, format_error_reason


class MissingTail(NamedTuple):
    """Records that the journal has and a log lacks."""

    path: str
    """The path of the last segment."""
    offset: int
    """The end offset of the log."""
    end_offset: int
    """The end offset of its records in the journal."""
    gap_end_offset: int | None
    """The offset at which the journal continues, if the log ends before it: no start can append these records."""

    def to_finding(self) -> LogFinding:
        """Return it as a finding."""
        if self.gap_end_offset is not None:
            reason = f"ends at offset {self.offset}, and the journal goes on at {self.gap_end_offset}"
            return LogFinding(
                FindingKind.JOURNAL, FindingEffect.STOPS_LOAD, self.path, None, 0, self.offset, reason
            )
        reason = f"the log ends at offset {self.offset}, the journal has its records up to {self.end_offset}"
        return LogFinding(
            FindingKind.JOURNAL, FindingEffect.TAKEN_BACK, self.path, None, 0, self.offset, reason
        )


class JournalCheck:
    """Checks the journals of the unused data directories of some logs. Raises OSError."""

    def __init__(self, files: Files, logs: Sequence[LogListing]) -> None:
        """Check the journals of the data directories of some logs."""
        self.damaged_journals: dict[str, DamagedFile] = {}
        """The errors of unreadable journals, by data directory."""
        self.missing_tails: dict[str, MissingTail] = {}
        """The missing records by directory of the log."""
        self._files = files
        by_directory: dict[str, list[LogListing]] = {}
        for log in logs:
            directory = find_data_directory(files, log)
            if directory is not None and log.is_whole:
                by_directory.setdefault(directory, []).append(log)
        for directory, its_logs in by_directory.items():
            if files.is_directory(f"{directory}/{JOURNAL}") and not _is_in_use(files, directory):
                self._read_journal(directory, its_logs)

    def _read_journal(self, directory: str, logs: Sequence[LogListing]) -> None:
        try:
            left_over = read_leftover_entries(self._files, f"{directory}/{JOURNAL}")
        except DamagedFile as error:
            self.damaged_journals[directory] = error
            return
        except FileNotFoundError:
            return  # a process has begun to use the directory
        except OSError as error:
            path = str(error.filename or f"{directory}/{JOURNAL}")
            self.damaged_journals[directory] = DamagedFile(path, format_error_reason(error, path))
            return
        try:
            recovery_points = read_offsets(self._files, f"{directory}/{RECOVERY_POINTS}")
            starts = read_offsets(self._files, f"{directory}/{LOG_START_OFFSETS}")
        except (DamagedFile, OSError):
            return  # no start opens these logs before the journal is repaired, and the journal stays
        for log in logs:
            assert log.name is not None, log
            try:
                entries = self._find_entries(left_over, log)
            except (DamagedFile, OSError):
                continue  # a start does not open this log either
            if entries:
                recovery_point, start = recovery_points.get(log.name, 0), starts.get(log.name, 0)
                lack = self._find_missing_tail(log, entries, recovery_point, start)
                if lack is not None:
                    self.missing_tails[log.directory] = lack

    def _find_entries(self, left_over: LeftoverEntries, log: LogListing) -> list[JournalEntry]:
        """Return the entries of a log by offset. Entries with another topic id belong to an earlier topic."""
        own = [key for key in left_over.find_logs() if key[1:] == log.name]
        topic_id = read_topic_id(self._files, log.directory)
        if topic_id is not None:
            own = [key for key in own if key.topic_id == topic_id]
        elif len(own) > 1:
            own = []
        return sorted((entry for key in own for entry in left_over.find_entries(key)), key=_get_base_offset)

    def _find_missing_tail(
        self, log: LogListing, entries: list[JournalEntry], recovery_point: int, start: int
    ) -> MissingTail | None:
        end = (
            self._find_end_offset(log, recovery_point) if log.segments else min(start, entries[0].base_offset)
        )
        last_end = entries[-1].end_offset
        if end < recovery_point or last_end <= max(end, start):
            return None  # the journal stays until the damage before the synced offset is repaired
        path = log.segments[-1].path if log.segments else log.directory
        return MissingTail(path, end, last_end, _find_gap(entries, end))

    def _find_end_offset(self, log: LogListing, recovery_point: int) -> int:
        """Return the offset at which the next start cuts the log; its end if it does not."""
        below = [number for number, each in enumerate(log.segments) if each.base_offset <= recovery_point]
        first = below[-1] if below else 0
        end = log.segments[first].base_offset
        for segment in log.segments[first:]:
            if segment.base_offset < end or segment.base_offset > end >= recovery_point:
                return end
            end = segment.base_offset
            try:
                file = self._files.open_read(segment.path)
            except OSError:
                return end  # `LogVerification` says why
            try:
                for piece in SegmentScan(file, segment.base_offset).scan_pieces():
                    if isinstance(piece, BadBytes):
                        return end
                    end = piece.header.next_offset
            finally:
                file.close()
        return end

    def find_problems(self, log: LogListing) -> Iterator[LogFinding]:
        """Yield the findings about a log."""
        lack = self.missing_tails.get(log.directory)
        if lack is not None:
            yield lack.to_finding()

    def take_damage(self, log: LogListing) -> LogFinding | None:
        """Return the damage of the journal of the log's data directory, once."""
        error = self.damaged_journals.pop(os.path.dirname(log.directory), None)
        if error is None:
            return None
        return LogFinding(
            FindingKind.JOURNAL, FindingEffect.STOPS_START, error.path, error.position, 0, None, error.reason
        )


def _is_in_use(files: Files, directory: str) -> bool:
    path = f"{directory}/{LOCK_FILE}"
    return files.exists(path) and files.is_locked(path)


def _get_base_offset(entry: JournalEntry) -> int:
    return entry.base_offset


def _find_gap(entries: Sequence[JournalEntry], end: int) -> int | None:
    """Return the offset at which the journal continues, if it is not the end of the log."""
    for entry in entries:
        if entry.end_offset <= end:
            continue
        try:
            for base_offset, next_offset, _ in split_batches(entry):
                if next_offset <= end:
                    continue
                if base_offset != end:
                    return base_offset
                end = next_offset
        except CorruptBatch:
            return end
    return None
