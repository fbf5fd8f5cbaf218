"""Find the partitions and segments of the offsets log in a directory.

Other files of brokers are ignored: other topics, `__cluster_metadata-0`, directories and files to be deleted
(`-delete`, `.deleted`) or unfinished (`-future`, `.cleaned`). One leftover matters: the cleaner replaces a segment
by two renames, from `.cleaned` to `.swap` and from `.swap` to the final name, and deletes the old segment in
between. Without that final file the `.swap` file is the segment.
"""

import re
from typing import Final, NamedTuple

from pipeline.errors import BadInput
from pipeline.log_files import LogFiles
from storage.storage_errors import format_error_reason

TOPIC: Final = "__consumer_offsets"

_PARTITION: Final = re.compile(r"(.+)-([0-9]{1,10})")
_SEGMENT: Final = re.compile(r"([0-9]{20})\.log(\.swap)?")


class Segment(NamedTuple):
    """A file of batches that starts at an offset."""

    base_offset: int
    path: str
    size_bytes: int


class LogPartition(NamedTuple):
    """One partition of `__consumer_offsets`: a directory, or a single requested segment of it."""

    number: int
    directory: str
    only_segment: str | None = None
    """The file name of the segment."""


def _partition_number(name: str) -> int | None:
    found = _PARTITION.fullmatch(name)
    return int(found[2]) if found is not None and found[1] == TOPIC else None


def find_partitions(files: LogFiles) -> list[LogPartition]:
    """Return the partitions at the location of `files`, by number. It may be a broker's data directory, a
    partition's directory, or one segment.

    Raises:
        BadInput: the location is not one of these; the text describes it in one line.
    """
    location, root = files.location, files.root
    try:
        entry = files.entry(root)
        if entry is None:
            raise BadInput(f"{location}: does not exist")
        if not entry.is_directory:
            return [_single_segment(location, root)]
        return _in_directory(files, location, root)
    except OSError as error:
        raise BadInput(f"{location}: cannot be read: {format_error_reason(error)}") from error


def _single_segment(location: str, path: str) -> LogPartition:
    directory, _, name = path.rpartition("/")
    found = _SEGMENT.fullmatch(name)
    if found is None or found[2]:
        raise BadInput(f"{location}: is not a segment. Segments have names like 00000000000000000000.log")
    number = _partition_number(directory.rpartition("/")[2])
    if number is None:
        raise BadInput(f"{location}: is not in a partition directory of {TOPIC}, such as {TOPIC}-0")
    return LogPartition(number, directory, name)


def _in_directory(files: LogFiles, location: str, root: str) -> list[LogPartition]:
    entries = files.entries(root)
    has_segments = any(_SEGMENT.fullmatch(entry.name) for entry in entries if not entry.is_directory)
    name = root.rstrip("/").rpartition("/")[2]
    number = _partition_number(name)
    if number is not None:
        if not has_segments:
            raise BadInput(f"{location}: has no segment, such as 00000000000000000000.log")
        return [LogPartition(number, root)]
    if not entries:
        raise BadInput(f"{location}: is empty")
    numbers = [(_partition_number(entry.name), entry.name) for entry in entries if entry.is_directory]
    found = sorted((number, name) for number, name in numbers if number is not None)
    if found:
        return [LogPartition(number, f"{root.rstrip('/')}/{name}") for number, name in found]
    if has_segments:
        topic = _PARTITION.fullmatch(name)
        raise BadInput(
            f"{location}: is a partition of {topic[1] if topic else 'another topic'}, not of {TOPIC}"
        )
    raise BadInput(f"{location}: has no partition directory of {TOPIC}, such as {TOPIC}-0")


def find_segments(files: LogFiles, partition: LogPartition) -> list[Segment]:
    """Return the segments of a partition by base offset.

    Raises:
        OSError: the directory cannot be read.
    """
    segments: dict[int, Segment] = {}
    for entry in files.entries(partition.directory):
        found = _SEGMENT.fullmatch(entry.name)
        if found is None or entry.is_directory:
            continue
        if partition.only_segment not in (None, entry.name):
            continue
        base_offset = int(found[1])
        if found[2] is None or base_offset not in segments:  # in sorted order `.log` precedes `.log.swap`
            path = f"{partition.directory}/{entry.name}"
            segments[base_offset] = Segment(base_offset, path, entry.size_bytes)
    return [segments[base_offset] for base_offset in sorted(segments)]
