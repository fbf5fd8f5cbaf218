"""Repairs a log in place, so that a crash leaves it damaged or repaired at any point.

All files are first written beside the log, in a directory with the name of a deleted one. The next start
after a crash removes it. Then these steps follow:

1. The recovery point is set to the end of the repaired log. A log that is still damaged is then not loaded,
and cannot be cut at the damage. 2. State files of groups are set aside, because they may have more records
than the log. 3. A copy of each damaged segment is kept as `.damaged`, and the repaired segment replaces it by
a rename.

An interrupted repair can be run again.
"""

import os
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from storage.files import DELETED_DIRECTORY_SUFFIX, MAX_NAME_LENGTH, Files, remove_directory
from storage.inspection.log_reader import LogListing, find_data_directory, relist_log
from storage.inspection.verification import find_unusable_files
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.offset_checkpoint import RECOVERY_POINTS, read_offsets, write_offsets
from storage.recovery.segment_swap import finish_swaps
from storage.repair.repair import (
    LogRepair,
    RepairedLog,
    RepairedSegment,
    format_leader_epochs,
    remove_producer_files,
    remove_segment,
)
from storage.segment import LOG_SUFFIX, format_segment_name
from storage.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.state_file import STATE_SUFFIX
from storage.storage_errors import DamagedFile
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX

DAMAGED_SUFFIX: Final = ".damaged"

_COPY_BYTES: Final = 1024 * 1024


def repair_in_place(
    files: Files,
    log: LogListing,
    repair: Callable[[LogListing], LogRepair],
    *,
    makes_checkpoint: bool = False,
) -> tuple[RepairedLog, list[str]]:
    """Repair all of a log. Return the result, and the paths of copies of damaged files.

    Args:
        files: The file system.
        log: The log with all its segments. The caller holds the lock of its data directory.
        repair: Creates the repair of a log.
        makes_checkpoint: Whether to replace an invalid checkpoint of recovery points.

    Raises: DamagedFile, LogDamaged, OSError: for example, an unfinished compaction is unreadable. The log is
            unchanged or partly repaired.
    """
    assert log.is_whole
    aside = _move_aside(files, log)
    if finish_swaps(files, log.directory):
        log = relist_log(files, log)
    result, damaged = _InPlaceRepair(files, log, makes_checkpoint).run_repair(repair(log))
    return result, [*aside, *damaged]


def _move_aside(files: Files, log: LogListing) -> list[str]:
    """Move unusable files beside the segments aside. Return their new paths. A start creates those files
    again."""
    segments = {segment.path for segment in log.segments}
    moved = []
    for path in find_unusable_files(files, log.directory).keys() - segments - {log.directory}:
        moved.append(find_free_path(files, path))
        files.replace(path, moved[-1])
        if path.endswith(TRANSACTION_INDEX_SUFFIX):
            remove_producer_files(files, log.directory)
    if moved:
        files.fsync_directory(log.directory)
    return sorted(moved)


def find_free_path(files: Files, path: str) -> str:
    """Return a free path beside a damaged file, under which the file can be kept."""
    aside, number = f"{path}{DAMAGED_SUFFIX}", 1
    while files.exists(aside):
        number += 1
        aside = f"{path}{DAMAGED_SUFFIX}.{number}"
    return aside


class _InPlaceRepair:
    def __init__(self, files: Files, log: LogListing, makes_checkpoint: bool) -> None:
        self._files = files
        self._log = log
        self._directory = log.directory
        self._makes_checkpoint = makes_checkpoint
        parent, name = os.path.split(log.directory)
        suffix = f".{uuid4().hex}{DELETED_DIRECTORY_SUFFIX}"
        self._work_directory = os.path.join(parent, name[: MAX_NAME_LENGTH - len(suffix)] + suffix)

    def run_repair(self, repair: LogRepair) -> tuple[RepairedLog, list[str]]:
        """Run all steps of the repair."""
        files = self._files
        files.mkdir(self._work_directory)
        try:
            changed = self._write_repaired_segments(repair)
            result = repair.result
            # With a lower recovery point the next start could truncate repaired records.
            assert len(result.segments) == len(self._log.segments), self._directory
            self._set_recovery_point(result.log_end_offset)
            damaged = self._move_states_aside() if any(segment.losses for segment in changed) else []
            if result.has_wrong_transaction_index:
                remove_producer_files(files, self._directory)
            for segment in changed:
                if segment.losses:
                    damaged.append(self._copy_aside(segment.source.path))
                self._replace_segment(segment, is_kept=result.is_kept(segment))
            self._repair_epochs(result)
            files.fsync_directory(self._directory)
        finally:
            remove_directory(files, self._work_directory)
        return result, damaged

    def _write_repaired_segments(self, repair: LogRepair) -> list[RepairedSegment]:
        """Write the repaired log beside the damaged one, and keep only the files that differ."""
        changed = []
        for segment in repair.repair_segments(self._work_directory):
            if segment.losses or segment.has_wrong_index:
                changed.append(segment)
                continue
            remove_segment(self._files, self._work_directory, segment.source.base_offset)
            file = self._files.open_append(segment.source.path)
            try:
                file.fdatasync()  # the new recovery point covers it
            finally:
                file.close()
        return changed

    def _set_recovery_point(self, offset: int) -> None:
        directory = find_data_directory(self._files, self._log)
        if directory is None or self._log.name is None:
            return
        path = f"{directory}/{RECOVERY_POINTS}"
        try:
            points = read_offsets(self._files, path)
        except DamagedFile:
            if not self._makes_checkpoint:
                raise
            points = {}
        if points.get(self._log.name) != offset:
            write_offsets(self._files, path, points | {self._log.name: offset})

    def _move_states_aside(self) -> list[str]:
        aside = []
        for name in self._files.listdir(self._directory):
            if name.endswith(STATE_SUFFIX):
                aside.append(find_free_path(self._files, f"{self._directory}/{name}"))
                self._files.replace(f"{self._directory}/{name}", aside[-1])
        self._files.fsync_directory(self._directory)
        return aside

    def _copy_aside(self, path: str) -> str:
        """Make a synced copy of a damaged file beside it. Return the path of the copy."""
        name = os.path.basename(path)
        copy_path = f"{self._work_directory}/{name}{DAMAGED_SUFFIX}"
        try:
            source = self._files.open_read(path)
        except OSError:
            aside = find_free_path(self._files, path)
            self._files.replace(path, aside)
            self._files.fsync_directory(self._directory)
            return aside
        copy = self._files.open_append(copy_path)
        try:
            for position in range(0, source.size(), _COPY_BYTES):
                copy.write(source.pread(_COPY_BYTES, position))
            copy.fdatasync()
            assert copy.size() == source.size(), copy_path
        finally:
            source.close()
            copy.close()
        aside = find_free_path(self._files, path)
        self._files.replace(copy_path, aside)
        self._files.fsync_directory(self._directory)
        return aside

    def _replace_segment(self, segment: RepairedSegment, *, is_kept: bool) -> None:
        """Put a repaired segment in the place of the damaged one. It has no indexes until they are moved too."""
        stem = format_segment_name(segment.source.base_offset)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(f"{self._directory}/{stem}{suffix}"):
                self._files.unlink(f"{self._directory}/{stem}{suffix}")
        # After a crash, an old index would count as the index of the repaired log.
        self._files.fsync_directory(self._directory)
        if not is_kept:
            if self._files.exists(segment.source.path):  # otherwise it was moved aside
                self._files.unlink(segment.source.path)
            return
        suffixes = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        for suffix in suffixes if segment.losses else suffixes[1:]:
            self._files.replace(f"{self._work_directory}/{stem}{suffix}", f"{self._directory}/{stem}{suffix}")
            self._files.fsync_directory(self._directory)

    def _repair_epochs(self, result: RepairedLog) -> None:
        """Rebuild the checkpoint of leader epochs if it is invalid."""
        try:
            LeaderEpochs.read(self._files, self._directory)
        except DamagedFile:  # an unreadable file was moved aside
            path = f"{self._directory}/{LEADER_EPOCHS}"
            if result.epochs:
                self._files.write_atomically(path, format_leader_epochs(result.epochs))
            else:
                self._files.unlink(path)
