"""Determine which partitions of the offsets log can hold a group.

A group's partition is its hash modulo the number of partitions. No file contains that number, and the directories
of one broker of several, or a partial copy, are incomplete. But the groups found in a partition constrain it: the
number of partitions divides the difference of a group's hash and its partition. So it is a common divisor of all
these differences, and greater than every partition number. There may be several candidates. A partition is left out
only if none of them assigns the group to it.
"""

from collections.abc import Collection, Sequence
from math import gcd, isqrt
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode.rows import COMMIT, GROUP, SCHEMA
from pipeline.decode.vectorised import Wanted, decode_frames
from pipeline.log_files import LogFiles
from pipeline.segments import LogPartition
from pipeline.walk import Walk
from protocol.partitioner import compute_group_number

SAMPLE_BYTES: Final = 1 << 16
_WANTED: Final = Wanted(frozenset((COMMIT, GROUP)), schema=pa.schema([SCHEMA.field("group")]))


def possible_counts(seen: Collection[tuple[int, str]]) -> list[int] | None:
    """Return the possible numbers of partitions, given some partitions and groups in them; None if any number is
    possible, an empty result if none fits.
    """
    common = gcd(*(abs(compute_group_number(group) - number) for number, group in seen))
    if common == 0:
        return None
    highest = max(number for number, _ in seen)
    small = [divisor for divisor in range(1, isqrt(common) + 1) if common % divisor == 0]
    return sorted({count for one in small for count in (one, common // one) if count > highest})


def that_may_hold(
    files: LogFiles, partitions: Sequence[LogPartition], groups: Collection[str]
) -> list[LogPartition]:
    """Return the partitions that may hold one of the groups. If the found groups fit no number of partitions,
    return all.

    Reads the beginning of each partition.

    Raises:
        OSError: a file cannot be read.
    """
    if len(partitions) < 2:
        return list(partitions)
    seen = {(one.number, group) for one in partitions for group in _some_groups(files, one)}
    counts = possible_counts(seen)
    if not counts:
        return list(partitions)
    places = {compute_group_number(group) % count for group in groups for count in counts}
    return [one for one in partitions if one.number in places]


def _some_groups(files: LogFiles, partition: LogPartition) -> set[str]:
    chunk = next(iter(Walk(files, partition, None, SAMPLE_BYTES)), None)
    if chunk is None:
        return set()
    frames = chunk.frames.select(~chunk.frames.is_control)
    decoded = decode_frames(chunk.data[: frames.end], frames, partition.number, _WANTED)
    return {
        group
        for batch in decoded.batches(_WANTED.schema)
        for group in pc.unique(batch.column("group")).to_pylist()
        if group is not None
    }
