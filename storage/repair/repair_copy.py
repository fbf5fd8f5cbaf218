"""Creates a repaired copy of a log, or of all logs of a data directory, on which a process can start.

The copy is a separate data directory, with partition directories, their small files and the checkpoints. The
original does not change, and may be in use.

A file in the copy marks it as unfinished. The next repair into an unfinished copy removes its content and
begins again.
"""

import os
import re
from collections.abc import Iterator
from typing import Final

from storage.data_directory import SECURITY, UNFINISHED_REPAIR
from storage.files import TEMPORARY_SUFFIX, Files, remove_directory
from storage.inspection.log_reader import LogListing, find_data_directory, list_names
from storage.journal.journal import JOURNAL
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets, write_offsets
from storage.repair.repair import LogRepair, RepairedLog, format_leader_epochs, remove_producer_files
from storage.storage_errors import DamagedFile, format_error_reason
from storage.topic_partition import TopicPartition

_NOT_COPIED: Final = re.compile(
    r"\.lock|\.kafka_cleanshutdown|.*-checkpoint|.*\.reserve-[0-9]|" + re.escape(UNFINISHED_REPAIR)
)
_CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_OF_SEGMENTS: Final = re.compile(
    r".*\.(log|index|timeindex|state|copy|tmp)|.*\.(cleaned|swap|deleted|damaged)(\..*)?|" + LEADER_EPOCHS
)


def can_hold_copy(files: Files, directory: str) -> bool:
    """Return whether a directory is empty, or was left by an interrupted repair. Raises OSError."""
    names = files.listdir(directory)
    return UNFINISHED_REPAIR in names or set(names) <= {UNFINISHED_REPAIR + TEMPORARY_SUFFIX}


class RepairCopy:
    """A directory that takes repaired logs. `finish` writes its checkpoints."""

    def __init__(self, files: Files, target: str) -> None:
        """Create a copy at an absolute path, which is new or which `can_hold_copy` accepts. Raises OSError."""
        files.mkdir(target, is_private=True)  # private like a new data directory: it may contain credentials
        files.fsync_directory(os.path.dirname(target))
        for name in files.listdir(target):
            path = f"{target}/{name}"
            if files.is_directory(path):
                remove_directory(files, path)
            elif name != UNFINISHED_REPAIR:
                files.unlink(path)
        files.write_atomically(f"{target}/{UNFINISHED_REPAIR}", b"")
        self._files = files
        self._target = target
        self._ends: dict[TopicPartition, int] = {}
        self._skipped_files: list[str] = []
        """A line about each file that was not copied."""

    def add_log(self, log: LogListing, repair: LogRepair) -> RepairedLog:
        """Write one log. Raises OSError."""
        files = self._files
        directory = self._target
        if log.is_whole and log.name is not None:
            directory = f"{self._target}/{log.name}"
            files.mkdir(directory)
            files.fsync_directory(self._target)
        result = repair.write(directory)
        if log.is_whole:
            self._copy_small_files(log, directory, result)
            if log.name is not None:
                self._ends[log.name] = result.log_end_offset
        files.fsync_directory(directory)
        return result

    def _copy_small_files(self, log: LogListing, directory: str, result: RepairedLog) -> None:
        files = self._files
        for name in list_names(files, log.directory):
            path = f"{log.directory}/{name}"
            if not _OF_SEGMENTS.fullmatch(name) and (data := self._read_small_file(path)) is not None:
                files.write_atomically(f"{directory}/{name}", data)
        if result.has_wrong_transaction_index:
            remove_producer_files(files, directory)
        try:
            epochs = LeaderEpochs.read(files, log.directory)
        except (DamagedFile, OSError):
            if result.epochs:
                files.write_atomically(f"{directory}/{LEADER_EPOCHS}", format_leader_epochs(result.epochs))
        else:
            if epochs is not None:
                path = f"{log.directory}/{LEADER_EPOCHS}"
                files.write_atomically(f"{directory}/{LEADER_EPOCHS}", files.read(path))

    def _read_small_file(self, path: str) -> bytes | None:
        """Return a small file of the original, or None if it cannot be read."""
        try:
            return self._files.read(path)
        except OSError as error:
            self._skipped_files.append(f"{path}: {format_error_reason(error, path)}")
            return None

    def finish(self, log: LogListing, *, is_directory: bool) -> list[str]:
        """Write the checkpoints, and copy the files beside the logs.

        `log` is any of the logs. `is_directory`: the whole data directory is copied. Return a line for each
        file that was left out: invalid ones, and a journal. Raises OSError.
        """
        files = self._files
        left_out = self._skipped_files
        write_offsets(files, f"{self._target}/{RECOVERY_POINTS}", self._ends)
        source = os.path.dirname(log.directory) if is_directory else find_data_directory(files, log)
        for name in (LOG_START_OFFSETS, _CLEANER_OFFSETS) if source is not None else ():
            try:
                offsets = read_offsets(files, f"{source}/{name}")
            except DamagedFile as error:
                left_out.append(str(error))
                continue
            except OSError as error:
                left_out.append(format_error_reason(error))
                continue
            known = {partition: offset for partition, offset in offsets.items() if partition in self._ends}
            if known:
                write_offsets(files, f"{self._target}/{name}", known)
        if is_directory and files.is_directory(f"{source}/{JOURNAL}"):
            left_out.append(f"{source}/{JOURNAL}: belongs to the original logs")
        for path in self._find_other_files(source) if is_directory and source is not None else ():
            name = os.path.basename(path)
            if (data := self._read_small_file(path)) is not None:
                files.write_atomically(f"{self._target}/{name}", data, is_private=name == SECURITY)
        files.fsync_directory(self._target)
        files.unlink(f"{self._target}/{UNFINISHED_REPAIR}")
        files.fsync_directory(self._target)
        return left_out

    def _find_other_files(self, source: str) -> Iterator[str]:
        for name in self._files.listdir(source):
            path = f"{source}/{name}"
            if not _NOT_COPIED.fullmatch(name) and not self._files.is_directory(path):
                yield path
