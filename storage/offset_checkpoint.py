"""Kafka's checkpoint files: one offset for each partition of a data directory, as text.

    0                       version
    2                       number of entries
    orders 0 1042           topic partition offset
    orders 1 77

Source: Kafka's `OffsetCheckpointFile`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from storage.files import Files
from storage.storage_errors import DamagedFile
from storage.topic_partition import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"

_VERSION: Final = "0"


class CheckpointDraft(NamedTuple):
    """The new content of a checkpoint file, which another thread writes. Its functions are for the owner's
    thread."""

    path: str
    data: bytes
    is_newest: Callable[[], bool]
    """Returns whether no later draft was written. An older draft must not replace a later one."""
    on_written: Callable[[], None]
    """Must be called after the draft was written durably."""
    write: Callable[[], None]
    """Does all steps at once, blocking. Raises OSError."""


class OffsetCheckpointFile:
    """One checkpoint file of an open data directory. All methods belong to the thread that owns it."""

    __slots__ = ("_draft_count", "_files", "_path", "_pending", "_removed", "_written_draft", "offsets")

    def __init__(self, files: Files, path: str) -> None:
        """Read the file. Raises DamagedFile, OSError."""
        self._files = files
        self._path = path
        self._draft_count = self._written_draft = 0
        self._removed: set[TopicPartition] = set()
        self._pending: list[dict[TopicPartition, int]] = []
        self.offsets = read_offsets(files, path)
        """The offsets for the next write of the file."""

    @contextmanager
    def include_pending(self, offsets: Mapping[TopicPartition, int]) -> Iterator[None]:
        """Include at least these offsets in all writes within the block, except for logs that are deleted
        meanwhile. The offsets may still be rejected."""
        pending = dict(offsets)
        self._pending.append(pending)
        try:
            yield
        finally:
            self._pending = [each for each in self._pending if each is not pending]

    def _add_pending(self) -> Mapping[TopicPartition, int]:
        """Return the offsets to write now."""
        offsets = dict(self.offsets) if self._pending else self.offsets
        for each in self._pending:
            for partition, offset in each.items():
                offsets[partition] = max(offset, offsets.get(partition, 0))
        return offsets

    def remove_entries(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the entries of deleted logs. The file keeps them until the next write."""
        for partition in partitions:
            entries = [each.pop(partition, None) for each in (self.offsets, *self._pending)]
            if any(entry is not None for entry in entries):
                self._removed.add(partition)

    def has_removed_entries(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether the file has entries of these partitions that `remove_entries` removed."""
        return not self._removed.isdisjoint(partitions)

    def create_draft(self, on_written: Callable[[], None] = lambda: None) -> CheckpointDraft:
        """Return a draft of the current entries. `on_written` is called when it is written."""
        self._draft_count += 1
        number, data = self._draft_count, _format_offsets(self._path, self._add_pending())
        forgotten = frozenset(self._removed)

        def is_in_place() -> None:
            self._note_written(number)
            self._removed -= forgotten
            on_written()

        return CheckpointDraft(
            self._path,
            data,
            lambda: self._written_draft < number,
            is_in_place,
            lambda: self._write_draft(number, data, is_in_place),
        )

    def write(self) -> None:
        """Replace the file atomically and durably. Blocks. Raises OSError."""
        self.create_draft().write()

    def discard_drafts(self) -> None:
        """Discard the unwritten drafts, which are obsolete."""
        self._written_draft = self._draft_count

    def _note_written(self, number: int) -> None:
        self._written_draft = max(self._written_draft, number)

    def _write_draft(self, number: int, data: bytes, is_in_place: Callable[[], None]) -> None:
        if self._written_draft < number:
            self._files.write_atomically(self._path, data)
            is_in_place()


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file atomically and durably. Raises OSError."""
    files.write_atomically(path, _format_offsets(path, offsets))


def _format_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> bytes:
    for partition, offset in offsets.items():
        assert offset >= 0, (path, partition, offset)
        assert not set(" \n").intersection(partition.topic), (path, partition)
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return "".join(f"{line}\n" for line in lines).encode()


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Return the entries of a checkpoint file. Raises DamagedFile, OSError.

    A missing or empty file has none. A Kafka broker leaves an empty file if it is killed soon after its first
    start.
    """
    data = files.read(path) if files.exists(path) else b""
    if not data:
        return {}
    try:
        lines = data.decode().split("\n")
        if lines[0] != _VERSION:
            raise DamagedFile(path, f"version {lines[0]!r} is not {_VERSION}")
        offsets = {}
        for line in lines[2 : 2 + int(lines[1])]:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
            if int(offset) < 0:
                raise DamagedFile(path, f"has offset {offset} for {topic}-{partition}")
    except (ValueError, IndexError) as error:
        raise DamagedFile(path, f"is not a checkpoint file: {error}") from error
    if len(offsets) != int(lines[1]):
        raise DamagedFile(path, f"announces {lines[1]} entries but has {len(offsets)}")
    return offsets
