"""A data directory: the logs of one process, and the small files beside them, in Kafka's forms.

    .lock                              locked while a process uses the directory
    .kafka_cleanshutdown               exists between a clean stop and the next start
    meta.properties                    the owner of the directory
    recovery-point-offset-checkpoint   the synced offset of each log
    log-start-offset-checkpoint        the log start offset of each log
    cleaner-offset-checkpoint          the compacted offset of each log
    topics.json                        the catalogue: partition counts, configs, configs of groups (not Kafka's)
    security.json                      ACLs and credentials of users (not Kafka's), private to the process's user
    .cluster                           the node of a cluster on etcd whose copy this is (not Kafka's)
    journal/                           records that are not settled; missing after a clean stop (not Kafka's)
    <topic>-<partition>/               a log, with its topic id in partition.metadata

Checkpoints may be older than the logs: recovery then reads more bytes. They must never be newer: a recovery point
beyond the end of a log means loss. Therefore the entry of a log is removed before its directory.

The name of the journal makes a Kafka broker refuse the directory, instead of serving logs with missing records.
`storage/journal/journal.py` explains the journal.
"""

import os
import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from storage.files import (
    DELETED_DIRECTORY_SUFFIX,
    TEMPORARY_SUFFIX,
    Files,
    Lock,
    mark_directory_deleted,
    remove_directory,
)
from storage.journal.journal import Journal, LogJournal
from storage.journal.journal_frame import LogKey
from storage.json_document import JsonDocument
from storage.leader_epochs import LEADER_EPOCHS
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import (
    HAS_SECURITY,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    add_has_security,
    read_or_write_meta,
    read_topic_id,
    write_topic_id,
)
from storage.offset_checkpoint import (
    CLEANED_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointDraft,
    OffsetCheckpointFile,
)
from storage.segment import LOG_SUFFIX, format_segment_name
from storage.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.storage_errors import (
    DamagedFile,
    DataDirectoryLocked,
    DataDirectoryUnusable,
    catch_os_error,
    format_error_reason,
)
from storage.topic_partition import TopicPartition

LOCK_FILE: Final = ".lock"
CLEAN_MARKER: Final = ".kafka_cleanshutdown"
CATALOGUE: Final = "topics.json"
SECURITY: Final = "security.json"
_CLUSTER_LOG: Final = "__cluster_metadata-0"
UNFINISHED_REPAIR: Final = ".unfinished-repair"
"""The marker file of a directory that `groupd log repair` is still creating as a copy of another one."""

_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]{1,10})")
_DELETED_DIRECTORY: Final = re.compile(r".+\.[0-9a-f]{32}" + DELETED_DIRECTORY_SUFFIX)
_RENAMES_PER_SYNC: Final = 20
"""The maximum number of directories that are removed with one sync of their parent."""
_CLEAN_CONTENTS: Final = b'{"version":0,"brokerEpoch":-1}'
_FILES_OF_NEW_LOG: Final = frozenset(
    {
        *(format_segment_name(0) + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)),
        *(name + suffix for name in (LEADER_EPOCHS, PARTITION_METADATA) for suffix in ("", TEMPORARY_SUFFIX)),
    }
)

RemovalFailures = dict[TopicPartition, OSError]
"""The errors of directories that could not be removed."""

R = TypeVar("R")

DirectorySteps = Generator[CheckpointDraft | Callable[[], OSError | None] | None, Any, R]
"""Steps between which the caller does other work. The caller writes each yielded draft, or calls each yielded
function, in any thread. It sends the OSError of the step, or None."""


def create_missing_security_error(path: str) -> DamagedFile:
    """Return the error of a data directory that has lost its ACLs and users."""
    return DamagedFile(
        f"{path}/{SECURITY}",
        "is missing, and this data directory had ACLs or users. Restore the file from a backup; to start without "
        f"them, remove the line {HAS_SECURITY} from {path}/{META_PROPERTIES}",
    )


class DataDirectory:
    """An open, locked data directory."""

    def __init__(
        self, files: Files, path: str, lock: Lock, meta: MetaProperties, was_clean: bool, journal: Journal
    ) -> None:
        self.files = files
        self.path = path
        self.meta = meta
        """The properties from the file, or the properties of a new directory."""
        self.was_clean = was_clean
        """Whether the last process stopped cleanly (False for a new directory)."""
        self.not_removed: Mapping[str, OSError] = {}
        """The errors of interrupted deletions that `open` could not complete, by path. The next start tries
        again."""
        self.journal = journal
        self._opened_partitions: set[TopicPartition] = set()
        self._copied_partitions: set[TopicPartition] = set()
        self._lock = lock
        self._catalogue = JsonDocument(files, self._join_path(CATALOGUE))
        self._security = JsonDocument(files, self._join_path(SECURITY), is_private=True)
        self._recovery_points = OffsetCheckpointFile(files, self._join_path(RECOVERY_POINTS))
        self._log_start_offsets = OffsetCheckpointFile(files, self._join_path(LOG_START_OFFSETS))
        self._cleaned_offsets = OffsetCheckpointFile(files, self._join_path(CLEANED_OFFSETS))
        self._checkpoints = (self._recovery_points, self._log_start_offsets, self._cleaned_offsets)

    @classmethod
    def open(
        cls, files: Files, path: str, new: MetaProperties, journal_file_bytes: int = 0
    ) -> "DataDirectory":
        """Open and lock a data directory. Create a missing one, with access for the user of the process only.

        Deletions that a crash interrupted are completed as far as the disk allows it.

        Args:
            files: The file system.
            path: An absolute path.
            new: The ids for a directory without any.
            journal_file_bytes: The maximum size of a journal file; 0 writes no journal. The journal of an earlier
                process is used in any case.

        Raises:
            DataDirectoryLocked, DataDirectoryUnusable, DamagedFile
        """
        try:
            if not files.is_directory(path):
                files.mkdir(path, is_private=True)
                files.fsync_directory(os.path.dirname(path))
            if files.exists(f"{path}/{UNFINISHED_REPAIR}"):
                raise DataDirectoryUnusable(
                    path,
                    "is an unfinished copy of `groupd log repair`: run the command again with this directory",
                )
            lock = files.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise DataDirectoryLocked(path, error.strerror or "is in use") from error
        except OSError as error:
            raise DataDirectoryUnusable(
                path, f"cannot be used: {format_error_reason(error, path)}"
            ) from error
        try:
            meta = read_or_write_meta(files, f"{path}/{META_PROPERTIES}", new)
            marker = f"{path}/{CLEAN_MARKER}"
            was_clean = files.exists(marker)
            not_removed = {}
            for name in files.listdir(path):
                if _DELETED_DIRECTORY.fullmatch(name) and files.is_directory(f"{path}/{name}"):
                    try:
                        remove_directory(files, f"{path}/{name}")
                    except OSError as error:
                        not_removed[f"{path}/{name}"] = error
            directory = cls(files, path, lock, meta, was_clean, Journal(files, path, journal_file_bytes))
            directory.not_removed = not_removed
            if was_clean:
                files.unlink(marker)
                files.fsync_directory(path)
        except OSError as error:
            lock.release()
            raise DataDirectoryUnusable(
                path, f"cannot be used: {format_error_reason(error, path)}"
            ) from error
        except BaseException:
            lock.release()
            raise
        return directory

    def _join_path(self, name: str) -> str:
        return f"{self.path}/{name}"

    # Partitions

    def list_partitions(self) -> list[TopicPartition]:
        """Return all partitions with a directory, by topic and number. Raises OSError."""
        found = []
        for name in self.files.listdir(self.path):
            match = _PARTITION_DIRECTORY.fullmatch(name)
            if match and self.files.is_directory(self._join_path(name)):
                found.append(TopicPartition(match[1], int(match[2])))
        return sorted(found)

    def list_journaled_partitions(self) -> set[TopicPartition]:
        """Return the partitions with entries in the journal. A crash may have removed the directories of some
        of them."""
        return {TopicPartition(key.topic, key.partition) for key in self.journal.find_unsettled_logs()}

    def open_log(
        self,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: bytes | None = None,
        *,
        is_journaled: bool = False,
    ) -> PartitionLog:
        """Open or create the log of a partition, with its checkpoints. Write a missing partition.metadata.

        Args:
            partition: The partition.
            config: The configuration of the log.
            topic_id: The topic id (16 bytes), if known.
            is_journaled: Whether appends go to the journal, if there is one.

        Raises:
            LogDamaged, SyncFailed, OSError
        """
        # The clean stop covers the earlier appends, not those of this process.
        is_as_left = partition in self._copied_partitions or (
            self.was_clean and partition not in self._opened_partitions
        )
        self._copied_partitions.discard(partition)
        self._opened_partitions.add(partition)
        is_new = not self.files.exists(self._join_path(str(partition)))
        recovery_point = self._recovery_points.offsets.get(partition, 0)
        log = PartitionLog.open(
            self.files,
            self._join_path(str(partition)),
            config,
            recovery_point=recovery_point,
            log_start_offset=self._log_start_offsets.offsets.get(partition, 0),
            was_clean=is_as_left,
            journal=self._create_log_journal(partition, topic_id),
        )
        if log.journal is not None:
            log.journal.on_recovery_point_recorded(recovery_point)
            log.journal.hold_out_until(log.log_end_offset)
        if not is_journaled:
            log.journal = None
            log.durability.detach_journal()
        if self.find_cleaned_offset(partition) > log.log_end_offset:
            # The log was truncated. Records after the new end are not clean.
            self._cleaned_offsets.offsets[partition] = log.log_end_offset
        log.cleaned_offset = self.find_cleaned_offset(partition)
        if topic_id is not None and self._read_topic_id(partition) is None:
            try:
                write_topic_id(self.files, log.directory, topic_id)
            except OSError as error:
                if is_new:
                    log.close(clean=False)
                    raise
                log.recovery_report = log.recovery_report.with_postponed(error)
        return log

    def _create_log_journal(self, partition: TopicPartition, topic_id: bytes | None) -> LogJournal | None:
        topic_id = topic_id or self.find_topic_id(partition)
        return None if topic_id is None else LogJournal(self.journal, LogKey(topic_id, *partition))

    def find_topic_id(self, partition: TopicPartition) -> bytes | None:
        """Return the topic id (16 bytes) of a partition from its partition.metadata.

        If the file is missing or torn by a crash, the id comes from the journal. Return None if the journal
        has no entry of the partition. Raises DamagedFile, OSError.
        """
        topic_id = self._read_topic_id(partition)
        if topic_id is None:
            found = {key.topic_id for key in self.journal.find_unsettled_logs() if key[1:] == partition}
            topic_id = next(iter(found)) if len(found) == 1 else None
        return topic_id

    def _read_topic_id(self, partition: TopicPartition) -> bytes | None:
        return read_topic_id(self.files, self._join_path(str(partition)))

    def is_unused(self, partition: TopicPartition) -> bool:
        """Return whether a partition's directory has only the files of a log that never had a record.

        A directory that cannot be listed counts as used. Records in the journal do not count: they may belong to a
        deleted topic of the same name.
        """
        directory = self._join_path(str(partition))
        try:
            names = self.files.listdir(directory)
        except OSError:
            return False
        first = format_segment_name(0) + LOG_SUFFIX
        return (
            _FILES_OF_NEW_LOG.issuperset(names)
            and (first not in names or self.files.size(f"{directory}/{first}") == 0)
            and not any(checkpoint.offsets.get(partition) for checkpoint in self._checkpoints)
        )

    def delete_logs(self, logs: Mapping[TopicPartition, PartitionLog | None]) -> None:
        """Delete logs and their checkpoint entries. Raises OSError, after trying all of them.

        A log that is not open is None. It may be incomplete or missing.
        """
        failures = run_steps(self.delete_logs_stepwise(logs))
        for error in failures.values():
            raise error

    def delete_logs_stepwise(
        self, logs: Mapping[TopicPartition, PartitionLog | None]
    ) -> DirectorySteps[RemovalFailures]:
        """Delete logs in steps, for a caller with other work in between. It needs no space on the disk.

        If the checkpoint files cannot be written, their entries stay until `remove_former_topics` is called
        for such a name. Return the reasons why directories could not be removed.
        """
        for checkpoint in self._checkpoints:
            checkpoint.remove_entries(logs)
        for checkpoint in self._checkpoints:
            yield checkpoint.create_draft()
        for log in logs.values():
            if log is not None:
                log.close_deleted()
        gone = {log.journal.key for log in logs.values() if log is not None and log.journal is not None}
        gone |= {
            key
            for key in self.journal.find_unsettled_logs()
            if TopicPartition(key.topic, key.partition) in logs
        }
        for key in gone:
            self.journal.drop_log(key)
        failures: RemovalFailures = {}
        partitions = [partition for partition in logs if self.files.exists(self._join_path(str(partition)))]
        for first in range(0, len(partitions), _RENAMES_PER_SYNC):
            failures |= yield from self._remove_directories(partitions[first : first + _RENAMES_PER_SYNC])
        return failures

    def _remove_directories(self, partitions: Sequence[TopicPartition]) -> DirectorySteps[RemovalFailures]:
        """Remove the directories of partitions. Return the errors of the remaining ones."""
        doomed: dict[TopicPartition, str] = {}
        is_renamed = True
        for partition in partitions:
            directory = self._join_path(str(partition))
            try:
                doomed[partition] = mark_directory_deleted(self.files, directory)
            except FileNotFoundError:
                continue
            except OSError:
                # Renaming to a longer name may need space. Removing without renaming needs none.
                doomed[partition], is_renamed = directory, False
        failures: RemovalFailures = {}
        sync = partial(catch_os_error, partial(self.files.fsync_directory, self.path))
        unsynced: OSError | None = yield sync
        for partition, directory in doomed.items():
            error = catch_os_error(partial(remove_directory, self.files, directory))
            if error is not None:
                failures[partition] = error
            yield None
        if not is_renamed:
            unsynced = unsynced or (yield sync)
        return failures if unsynced is None else {**dict.fromkeys(doomed, unsynced), **failures}

    def remove_former_topics(
        self, partitions: Collection[TopicPartition], topic_id: bytes
    ) -> DirectorySteps[None]:
        """Remove, in steps, the directories and checkpoint entries of deleted topics that had the names of new
        partitions. Directories of the topic with `topic_id` stay. Raises OSError."""
        others: dict[TopicPartition, None] = {}
        for partition in partitions:
            directory = self._join_path(str(partition))
            if self.files.exists(directory) and _read_sound_topic_id(self.files, directory) != topic_id:
                others[partition] = None
            yield None
        failures = (yield from self.delete_logs_stepwise(others)) if others else {}
        for error in failures.values():
            raise error
        new = [
            each for each in partitions if each in others or not self.files.exists(self._join_path(str(each)))
        ]
        for checkpoint in self._checkpoints:
            checkpoint.remove_entries(new)
        for checkpoint in self._checkpoints:
            if (
                checkpoint.has_removed_entries(new)
                and (error := (yield checkpoint.create_draft())) is not None
            ):
                raise error

    # Checkpoints

    def write_checkpoints(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Record the durable offsets and log start offsets of some logs. Entries of other logs stay.

        Call it after DeleteRecords, and before the end of a log moves back. It blocks and raises OSError.
        """
        for draft in self.draft_checkpoints(logs):
            draft.write()

    def draft_checkpoints(self, logs: Mapping[TopicPartition, PartitionLog]) -> list[CheckpointDraft]:
        """Return drafts of the checkpoints, which the caller writes in any thread. Call it periodically
        (Kafka: each minute)."""
        noted = self._note_offsets(logs)
        return [
            self._recovery_points.create_draft(partial(_record_recovery_points, noted)),
            self._log_start_offsets.create_draft(),
        ]

    def record_log_starts(self, starts: Mapping[TopicPartition, int]) -> DirectorySteps[OSError | None]:
        """Record, in steps, that logs are about to begin at these offsets. Return the error of the disk, or
        None.

        Without an error the caller moves the log starts at once, and calls `on_log_starts_raised`.
        """
        with self._log_start_offsets.include_pending(starts):
            error: OSError | None = yield self._log_start_offsets.create_draft()
        if error is not None:
            # The file may have been renamed before the error, so the old starts are written again. A full disk
            # may refuse that, and the new starts stay.
            yield self._log_start_offsets.create_draft()
        return error

    def on_log_starts_raised(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Record the start offsets of these logs."""
        self._log_start_offsets.offsets.update({name: log.log_start_offset for name, log in logs.items()})

    def _note_offsets(self, logs: Mapping[TopicPartition, PartitionLog]) -> list[tuple[LogJournal, int]]:
        noted = []
        recovery_points, log_start_offsets = self._recovery_points.offsets, self._log_start_offsets.offsets
        for partition, log in logs.items():
            if log.durability.replication_queue is not None:
                continue  # the directory is a copy, which is created again when it is needed
            assert log.synced_offset <= log.log_end_offset, (partition, log.synced_offset)
            # A lower start would restore deleted records.
            recorded = log_start_offsets.get(partition, 0)
            assert recorded <= log.log_start_offset <= log.log_end_offset, (partition, log.log_start_offset)
            recovery_points[partition] = log.synced_offset
            if log.log_start_offset > 0:
                log_start_offsets[partition] = log.log_start_offset
            if log.journal is not None:
                noted.append((log.journal, log.synced_offset))
        return noted

    def find_cleaned_offset(self, partition: TopicPartition) -> int:
        """Return the recorded offset up to which a log was compacted, or 0 if it never was."""
        return self._cleaned_offsets.offsets.get(partition, 0)

    def on_log_copied(self, partition: TopicPartition, log_start_offset: int, cleaned_to: int) -> None:
        """Replace the checkpoints of a log after its directory was filled with a copy. The copy begins at
        `log_start_offset` and is compacted up to `cleaned_to`. The copy was checked while it was written."""
        self._copied_partitions.add(partition)
        self._recovery_points.offsets.pop(partition, None)
        self._log_start_offsets.offsets[partition] = log_start_offset
        self._cleaned_offsets.offsets[partition] = cleaned_to

    def draft_cleaned_offset(self, partition: TopicPartition, offset: int) -> CheckpointDraft:
        """Draft the compacted offset of a log, for another thread to write."""
        self._cleaned_offsets.offsets[partition] = offset
        return self._cleaned_offsets.create_draft()

    # Documents

    def read_catalogue(self) -> object | None:
        """Return the catalogue, or None without one. Raises DamagedFile, OSError."""
        return self._catalogue.read()

    def write_catalogue(self, document: Mapping[str, object]) -> None:
        """Replace the catalogue. See `JsonDocument.write`."""
        self._catalogue.write(document)

    def has_security(self) -> bool:
        """Return whether the directory has ACLs and credentials: in security.json, in the metadata log of a
        Kafka broker, or formerly in a lost security.json."""
        return self.meta.has_security or any(
            self.files.exists(self._join_path(name)) for name in (SECURITY, _CLUSTER_LOG)
        )

    def read_security(self) -> object | None:
        """Return the stored ACLs and credentials, None if there never were any. Raises DamagedFile, also for a
        missing file; OSError."""
        document = self._security.read()
        if document is None and self.meta.has_security:
            raise create_missing_security_error(self.path)
        self._security.ensure_reserves()
        return document

    def record_security(self) -> None:
        """Record durably that security.json exists, so that a later start reports its loss. Raises OSError."""
        if not self.meta.has_security:
            add_has_security(self.files, self._join_path(META_PROPERTIES))
            self.meta = self.meta._replace(has_security=True)

    def write_security(self, document: Mapping[str, object]) -> None:
        """Replace ACLs and credentials. See `JsonDocument.write`."""
        self._security.write(document)

    # Closing

    def close(
        self, logs: Mapping[TopicPartition, PartitionLog], failed: Collection[TopicPartition] = ()
    ) -> None:
        """Close the logs, record their offsets, and mark the stop as clean if every log closed cleanly.

        `logs` has all open logs. Partitions in `failed` could not be opened and make the stop unclean. Raises
        the error of a log, after all of them are closed and the lock is released.
        """
        errors: list[Exception] = []
        for log in logs.values():
            try:
                log.close()
            except Exception as error:  # noqa: BLE001 - raised below, after the other logs are closed
                errors.append(error)
        try:
            self.write_checkpoints(logs)
            if not errors and not failed:
                # After a clean stop the next start treats all bytes of a log as durable.
                unsynced = [name for name, log in logs.items() if log.synced_offset != log.log_end_offset]
                assert not unsynced, unsynced
                self._remove_journal(logs)
                self.files.write_atomically(self._join_path(CLEAN_MARKER), _CLEAN_CONTENTS)
        finally:
            self.abandon()
        if errors:
            raise errors[0]

    def drop_deleted_logs(self) -> None:
        """Drop the journal entries of logs that no longer exist. All logs are open, so these entries are from
        topics that a former process has deleted."""
        for key in self.journal.find_leftover_logs():
            self.journal.drop_log(key)

    def _remove_journal(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Remove the journal before the stop counts as clean. All logs are open and contain their journal
        entries."""
        for key in self.journal.find_unsettled_logs():
            log = logs.get(TopicPartition(key.topic, key.partition))
            assert log is None or log.journal is None or log.journal.key != key, key
            self.journal.drop_log(key)
        self.journal.remove()

    def abandon(self) -> None:
        """Release the lock without any other change, as a crash would."""
        self.journal.close()
        for document in (self._catalogue, self._security):
            document.close()
        for checkpoint in self._checkpoints:
            checkpoint.discard_drafts()
        self._lock.release()


def run_steps(steps: DirectorySteps[R]) -> R:
    """Run all steps at once, blocking, and return their result."""
    result: OSError | None = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: R = end.value
            return found
        call = partial(catch_os_error, step.write) if isinstance(step, CheckpointDraft) else step
        result = None if call is None else call()


def _read_sound_topic_id(files: Files, directory: str) -> bytes | None:
    """Read a topic id like `read_topic_id`, but return None for an invalid file too. Raises OSError."""
    try:
        return read_topic_id(files, directory)
    except DamagedFile:
        return None


def _record_recovery_points(noted: list[tuple[LogJournal, int]]) -> None:
    for journal, recovery_point in noted:
        journal.on_recovery_point_recorded(recovery_point)
