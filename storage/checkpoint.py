"""Kafka's checkpoint files: one offset for each partition of a data directory, as text.

    0                       version
    2                       number of entries
    orders 0 1042           topic partition offset
    orders 1 77

Source: Kafka's `OffsetCheckpointFile`.
"""

from collections.abc import Mapping
from typing import Final

from storage.errors import DamagedFile
from storage.files import Files
from storage.topic_partition import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"

_VERSION: Final = "0"


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces a checkpoint file, atomically and durably. Raises OSError."""
    for partition, offset in offsets.items():
        assert offset >= 0, (path, partition, offset)
        assert not set(" \n").intersection(partition.topic), (path, partition)
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    files.write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The entries of a checkpoint file. Raises DamagedFile, OSError.

    None where there is no file, or an empty one: a broker makes it at its first start, and is killed before it
    has anything to write there.
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
        raise DamagedFile(path, f"announces {lines[1]} entries and has {len(offsets)}")
    return offsets
