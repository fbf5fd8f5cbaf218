"""Recovers a data directory and closes it cleanly, without a server: `groupd log recover`."""

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
    """The result of a recovery."""

    was_clean: bool
    reports: Sequence[RecoveryReport]
    """Reports of the logs that could be opened."""
    failed: Sequence[tuple[TopicPartition, Exception]]
    """Logs that could not be opened. Their part of the journal stays."""


def is_data_directory(files: Files, path: str) -> bool:
    """Return whether a process has used the directory. Only such directories are recovered."""
    return files.exists(f"{path}/{META_PROPERTIES}")


def recover_directory(files: Files, path: str, *, without_journal: bool = False) -> DirectoryRecovery:
    """Open every log, which restores its part of the journal, and close the directory cleanly.

    Args:
        files: File system.
        path: Absolute path of the directory.
        without_journal: Whether to remove the journal unread, because it is damaged.

    Raises:
        StorageError, OSError: The directory is not usable.
        InvalidConfig: A topic has an invalid config.
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
    """Remove the journal of a directory that no process uses. Raises DataDirectoryLocked, OSError."""
    lock_path = f"{path}/{LOCK_FILE}"
    try:
        lock = files.lock(lock_path)
    except BlockingIOError as error:
        raise DataDirectoryLocked(path, error.strerror or "is in use") from error
    try:
        remove_journal(files, path)
    finally:
        lock.release()
