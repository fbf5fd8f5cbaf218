"""Which partitions of the offsets log can hold a group.

A group's records lie in the partition that the group's number names: its remainder by the count of partitions. The
count is in no file, and of one broker among several, or of a copy of some directories, not all partitions are there
to be counted. But the groups that a partition holds betray it: the count divides the difference between a group's
number and the number of its partition. So it is a common divisor of all these differences, and larger than every
partition's number. There may be several such; a partition is left out only if none of them puts the group there.
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
    """How many partitions there may be, given some partitions and groups in them; None when it may be any number,
    nothing when no number fits.
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
    """The partitions without those that hold none of the groups for sure. Raises OSError.

    Looks at the beginning of each partition. Where groups lie in no order that Kafka knows, all may hold them.
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
