"""Does for a data directory what a start and a clean stop do, without serving: `groupd log recover`."""

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.broker.server_settings import create_data_plane_config
from coordinator.config.properties import Config
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.topics.data_plane import DataPlane
from storage.data_directory import LOCK_FILE, DataDirectory
from storage.files import Files
from storage.journal.journal import remove_journal
from storage.log import PartitionLog
from storage.log_config import COMPACT, LogConfig
from storage.metadata_files import META_PROPERTIES, MetaProperties
from storage.recovery.recovery import RecoveryReport
from storage.storage_errors import DataDirectoryLocked, StorageError
from storage.topic_partition import TopicPartition


class DirectoryRecovery(NamedTuple):
    """What became of the logs of a data directory."""

    was_clean: bool
    reports: Sequence[RecoveryReport]
    """Of each log that could be opened."""
    failed: Sequence[tuple[TopicPartition, Exception]]
    """The others, which keep the journal."""


def is_data_directory(files: Files, path: str) -> bool:
    """Whether a process has used it: nothing else is recovered."""
    return files.exists(f"{path}/{META_PROPERTIES}")


def recover_directory(files: Files, path: str, *, without_journal: bool = False) -> DirectoryRecovery:
    """Opens every log, which takes back what the journal has of it, and closes the directory cleanly.

    In: an absolute path; whether the journal is removed unread, for one that is damaged. Raises StorageError,
    OSError, InvalidConfig.
    """
    assert is_data_directory(files, path), path
    if without_journal:
        _remove_journal(files, path)
    directory = DataDirectory.open(files, path, MetaProperties("", 0, ""))
    try:
        plane = DataPlane.open(directory, create_data_plane_config(Config(), {}))
        logs: dict[TopicPartition, PartitionLog] = plane.list_logs()
        failed: list[tuple[TopicPartition, Exception]] = list(plane.list_failed_partitions().items())
        for partition in sorted({*directory.list_partitions(), *directory.list_journaled_partitions()}):
            if partition.topic in COORDINATOR_TOPICS:
                try:
                    logs[partition] = directory.open_log(partition, LogConfig(cleanup_policy=COMPACT))
                except (StorageError, OSError) as error:
                    failed.append((partition, error))
    except BaseException:
        directory.abandon()
        raise
    directory.close(logs, [name for name, _ in failed])
    return DirectoryRecovery(directory.was_clean, [log.recovery_report for log in logs.values()], failed)


def _remove_journal(files: Files, path: str) -> None:
    """Removes the journal of a directory that no process uses. Raises DataDirectoryLocked, OSError."""
    lock_path = f"{path}/{LOCK_FILE}"
    try:
        lock = files.lock(lock_path)
    except BlockingIOError as error:
        raise DataDirectoryLocked(path, error.strerror or "is in use") from error
    try:
        remove_journal(files, path)
    finally:
        lock.release()
