"""The ends of all logs at one time: commits and log ends of the same time give the lag at that time.

An ingest takes a snapshot before it reads, and reads each partition of the offsets log up to its end in the
snapshot. Later commits wait for the next ingest, however long the read takes. A build compares the commits with the
log ends of the snapshot. Without a snapshot the log ends would be newer than the commits, and a busy group's lag
would include all records that arrived in between.

The warehouse keeps the latest snapshot with its batch number.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from storage.topic_partition import TopicPartition

FILE: Final = "_log_ends.json"
"""The file name in the warehouse."""


class Bounds(NamedTuple):
    """The first offset of a log (None: unknown), and the offset of its next record."""

    start: int | None
    end: int


class Snapshot(NamedTuple):
    """The ends of logs at one time.

    `topics`: all partitions with a known end; empty if only the time was taken. `offsets_log`: the end of each
    partition of `__consumer_offsets` by number; None if unknown, so that an ingest reads everything.
    """

    instant_ms: int
    topics: Mapping[TopicPartition, Bounds]
    offsets_log: Mapping[int, int] | None = None

    def to_json(self, through_batch: int) -> bytes:
        """Encode for a warehouse with exactly the commits up to this time in its silver tables."""
        ends = [[*partition, *bounds] for partition, bounds in sorted(self.topics.items())]
        document = {"instant_ms": self.instant_ms, "through_batch": through_batch, "log_ends": ends}
        return json.dumps(document).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes, through_batch: int) -> Self | None:
        """Decode a snapshot; return None if it belongs to another batch than `through_batch`.

        Raises:
            ValueError, KeyError, TypeError: the file has another content.
        """
        document: dict[str, Any] = json.loads(data)
        if document["through_batch"] != through_batch:
            return None
        topics = {
            TopicPartition(topic, partition): Bounds(start, end)
            for topic, partition, start, end in document["log_ends"]
        }
        return cls(document["instant_ms"], topics)


TakeSnapshot = Callable[[], Snapshot]
"""May raise BadInput."""
