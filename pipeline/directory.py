"""The file operations of a warehouse besides reading and writing Parquet.

Local paths use the operating system. Other locations use Hadoop's file systems in Spark's JVM, which support every
URL that Spark can write to.
"""

import contextlib
import os
import shutil
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyspark.sql import SparkSession

from pipeline.errors import BadInput
from pipeline.exchange import exchange

_TEMPORARY_SUFFIX: Final = ".tmp"


class Directory(Protocol):
    """A directory. Paths are relative to its root; errors are OSError or Spark's Py4JError."""

    def path(self, relative: str) -> str:
        """Return a path in Spark's form."""

    def exists(self, relative: str) -> bool:
        """Return whether a file or directory exists."""

    def names(self, relative: str) -> list[str]:
        """Return the sorted names in a directory; empty if it does not exist."""

    def create(self, relative: str) -> None:
        """Create a directory and its parents if missing."""

    def read(self, relative: str) -> bytes:
        """Read a whole small file."""

    def fetch(self, relative: str, copy: str) -> str:
        """Return the local path of a file; `copy` if it had to be copied there."""

    def write(self, relative: str, data: bytes) -> None:
        """Replace a small file atomically."""

    def replace_file(self, source: str, target: str) -> None:
        """Rename a file over another one atomically."""

    def rename(self, source: str, target: str) -> None:
        """Rename a directory to an unused name atomically."""

    def delete(self, relative: str) -> None:
        """Delete a file or a directory tree, if it exists."""


class LocalDirectory:
    """A `Directory` of the operating system. Sources of a rename are made durable first."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)

    def path(self, relative: str) -> str:
        return os.path.join(self._root, relative) if relative else self._root

    def exists(self, relative: str) -> bool:
        return os.path.exists(self.path(relative))

    def names(self, relative: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(relative)))
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise BadInput(f"{self.path(relative)}: is a file, not a directory") from error

    def create(self, relative: str) -> None:
        try:
            os.makedirs(self.path(relative), exist_ok=True)
        except FileExistsError as error:
            raise BadInput(f"{self.path(relative)}: is a file, not a directory") from error

    def read(self, relative: str) -> bytes:
        with open(self.path(relative), "rb") as file:
            return file.read()

    def fetch(self, relative: str, copy: str) -> str:
        return self.path(relative)

    def write(self, relative: str, data: bytes) -> None:
        temporary = f"{relative}.{uuid4().hex}{_TEMPORARY_SUFFIX}"
        with open(self.path(temporary), "wb") as file:
            file.write(data)
        self.replace_file(temporary, relative)

    def replace_file(self, source: str, target: str) -> None:
        _sync(self.path(source))
        os.replace(self.path(source), self.path(target))
        _sync(os.path.dirname(self.path(target)))

    def rename(self, source: str, target: str) -> None:
        _sync_all(self.path(source))
        os.rename(self.path(source), self.path(target))
        _sync(os.path.dirname(self.path(target)))

    def exchange(self, made: str, target: str) -> None:
        """Exchange the names of two directories atomically.

        Raises:
            OSError: the exchange failed, or the file system does not support it.
        """
        _sync_all(self.path(made))
        exchange(self.path(made), self.path(target))
        _sync(os.path.dirname(self.path(target)))

    def link(self, source: str, target: str) -> None:
        """Create a hard link to a file, or to each file of a directory.

        Raises:
            OSError: the link failed, or the file system does not support it.
        """
        path = self.path(source)
        if not os.path.isdir(path):
            os.link(path, self.path(target))
            return
        self.create(target)
        for name in self.names(source):
            self.link(f"{source}/{name}", f"{target}/{name}")

    def size_bytes(self, relative: str) -> int:
        """Return the size of a file or of all files in a directory."""
        path = self.path(relative)
        if not os.path.isdir(path):
            return os.stat(path).st_size
        return sum(self.size_bytes(f"{relative}/{name}") for name in self.names(relative))

    def delete(self, relative: str) -> None:
        path = self.path(relative)
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def _sync_all(directory: str) -> None:
    for place, _, names in os.walk(directory):
        for name in names:
            _sync(os.path.join(place, name))
        _sync(place)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HadoopDirectory:
    """A `Directory` at a URL. It needs a running Spark session. Renames are as atomic as in the file system (HDFS:
    fully; object stores: file by file).
    """

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def path(self, relative: str) -> str:
        return f"{self._root}/{relative}" if relative else self._root

    def _jvm(self) -> Any:
        session = SparkSession.getActiveSession()
        if session is None:
            raise BadInput(f"{self._root}: a URL can only be used while Spark runs")
        return session.sparkContext._jvm  # spark has no public API for Hadoop's file systems

    def _at(self, relative: str) -> tuple[Any, Any]:
        jvm = self._jvm()
        place = jvm.org.apache.hadoop.fs.Path(self.path(relative))
        session = SparkSession.getActiveSession()
        assert session is not None
        files = place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
        # A local file system with checksums renames a file and its checksum one after the other.
        return files.getRawFileSystem() if _has_method(files, "getRawFileSystem") else files, place

    def exists(self, relative: str) -> bool:
        files, place = self._at(relative)
        return bool(files.exists(place))

    def names(self, relative: str) -> list[str]:
        files, place = self._at(relative)
        if not files.exists(place):
            return []
        return sorted(str(status.getPath().getName()) for status in files.listStatus(place))

    def create(self, relative: str) -> None:
        files, place = self._at(relative)
        files.mkdirs(place)

    def read(self, relative: str) -> bytes:
        files, place = self._at(relative)
        stream = files.open(place)
        try:
            return bytes(self._jvm().org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def fetch(self, relative: str, copy: str) -> str:
        files, place = self._at(relative)
        local = self._jvm().org.apache.hadoop.fs.Path(f"file://{copy}")
        files.copyToLocalFile(False, place, local, True)
        return copy

    def write(self, relative: str, data: bytes) -> None:
        temporary = f"{relative}.{uuid4().hex}{_TEMPORARY_SUFFIX}"
        files, place = self._at(temporary)
        stream = files.create(place, True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        self.replace_file(temporary, relative)

    def replace_file(self, source: str, target: str) -> None:
        files, place = self._at(source)
        jvm = self._jvm()
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(files.getUri(), files.getConf())
        rename = jvm.org.apache.hadoop.fs.Options.Rename
        options = jvm.java.lang.reflect.Array.newInstance(rename.OVERWRITE.getClass(), 1)
        options[0] = rename.OVERWRITE
        context.rename(place, jvm.org.apache.hadoop.fs.Path(self.path(target)), options)

    def rename(self, source: str, target: str) -> None:
        files, place = self._at(source)
        self.create(os.path.dirname(target))
        if not files.rename(place, self._jvm().org.apache.hadoop.fs.Path(self.path(target))):
            raise OSError(f"{self.path(source)}: cannot be renamed to {self.path(target)}")

    def delete(self, relative: str) -> None:
        files, place = self._at(relative)
        files.delete(place, True)


def _has_method(instance: Any, method: str) -> bool:
    """Return whether a Java object has a public method of this name."""
    return any(found.getName() == method for found in instance.getClass().getMethods())


def local_path(location: str) -> str | None:
    """Return the path of a local location, a path or a `file:` URL; None for any other URL."""
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    # A single letter is a drive, not a scheme.
    return location if len(parts.scheme) < 2 or "://" not in location else None


def directory_at(location: str) -> Directory:
    """Return the directory at a path or URL, existing or not."""
    path = local_path(location)
    return HadoopDirectory(location) if path is None else LocalDirectory(path)
