"""ACLs and credentials of a stopped server, for changes with `groupd user --data-dir`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from coordinator.broker.directory_recovery import is_data_directory
from coordinator.cluster.daemon.cluster_identity import is_member
from coordinator.security.core.security_state import SecurityState
from coordinator.topics.kafka_metadata_security import read_cluster_security
from storage.data_directory import LOCK_FILE, SECURITY, create_missing_security_error
from storage.files import Files
from storage.json_document import RESERVE_SUFFIXES, JsonDocument
from storage.metadata_files import META_PROPERTIES, MetaProperties, read_or_write_meta
from storage.storage_errors import (
    DamagedFile,
    DataDirectoryLocked,
    DataDirectoryUnusable,
    format_error_reason,
)

_OWN_FILES: Final = {LOCK_FILE, SECURITY, *(SECURITY + suffix for suffix in RESERVE_SUFFIXES)}


class SecurityFile:
    """The ACLs and credentials of one data directory, which no server uses."""

    def __init__(self, files: Files, path: str) -> None:
        """Read the file. Raises DamagedFile, OSError."""
        self._document = JsonDocument(files, f"{path}/{SECURITY}", is_private=True)
        document = self._document.read()
        if document is None and _had_security(files, path):
            raise create_missing_security_error(path)
        if document is None:  # a Kafka broker may have used the directory before
            self.state = read_cluster_security(files, path)
            return
        try:
            self.state = SecurityState.from_document(document)
        except ValueError as error:
            raise DamagedFile(f"{path}/{SECURITY}", f"is not valid: {error}") from error

    def write_state(self, new: SecurityState) -> None:
        """Replace the ACLs and credentials durably. Raises OSError."""
        self._document.write(new.to_document())
        self.state = new


@contextmanager
def open_security_file(files: Files, path: str) -> Iterator[SecurityFile]:
    """Open the file of a data directory, under the directory's lock.

    An empty directory becomes a data directory. `path` must be absolute. Raises StorageError, OSError.
    """
    if not files.is_directory(path):
        raise DataDirectoryUnusable(path, "is not a directory")
    if is_member(files, path):
        raise DataDirectoryUnusable(
            path, "belongs to a cluster, which keeps users in etcd: use --bootstrap with one of its brokers"
        )
    if not is_data_directory(files, path) and set(files.listdir(path)) - _OWN_FILES:
        raise DataDirectoryUnusable(path, "is not a data directory, and not empty")
    try:
        lock = files.lock(f"{path}/{LOCK_FILE}")
    except BlockingIOError as error:
        raise DataDirectoryLocked(path, error.strerror or "is in use") from error
    except OSError as error:
        raise DataDirectoryUnusable(path, f"cannot be used: {format_error_reason(error, path)}") from error
    try:
        yield SecurityFile(files, path)
    finally:
        lock.release()


def _had_security(files: Files, path: str) -> bool:
    meta = f"{path}/{META_PROPERTIES}"
    return files.exists(meta) and read_or_write_meta(files, meta, MetaProperties("", 0, "")).has_security
