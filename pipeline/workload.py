"""How much there is to do, asked before Spark starts: for a little, its virtual machine is started otherwise."""

import os
from typing import Final

from pipeline.log_files import LogFiles
from pipeline.segments import find_partitions, find_segments

LITTLE_BYTES: Final = 8_000_000
"""Of log, or of tables: up to about here Spark spends more on compiling than on running what it compiled."""


def log_bytes(log_dir: str) -> int:
    """Of all segments of the offsets log there. Raises BadInput, OSError."""
    files = LogFiles(log_dir)
    return sum(
        segment.size_bytes
        for partition in find_partitions(files)
        for segment in find_segments(files, partition)
    )


def is_little(warehouse: str, new_bytes: int = 0) -> bool:
    """Whether the tables of a warehouse, with so much more, are few. Not where only Spark knows how many they are,
    behind a URL."""
    if "://" in warehouse:
        return False
    size_bytes = new_bytes
    for place, _, names in os.walk(warehouse):
        for name in names:
            size_bytes += os.lstat(os.path.join(place, name)).st_size
            if size_bytes > LITTLE_BYTES:
                return False
    return size_bytes <= LITTLE_BYTES
