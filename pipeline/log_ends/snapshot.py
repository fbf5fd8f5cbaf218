"""Where all logs ended at one instant: the commits up to then and the log ends of then make the lag of then.

An ingest takes a snapshot before it reads, and reads each partition of the offsets log up to its end in the
snapshot. A commit that comes later waits for the next ingest, however long reading takes. A build compares the
commits with the log ends of the snapshot. Without this, the log ends are younger than the commits, and a busy group
seems to lag by all that its topics gained in between.

The warehouse keeps the latest snapshot, with the batch that it belongs to.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from storage.topic_partition import TopicPartition

FILE: Final = "_log_ends.json"
"""In the warehouse."""


class Bounds(NamedTuple):
    """The first offset of a log, None where it is not known, and the offset of its next message."""

    start: int | None
    end: int


class Snapshot(NamedTuple):
    """The ends of logs at an instant.

    `topics`: of every partition with a known end; empty where only the time was taken. `offsets_log`: the end of
    each partition of `__consumer_offsets`, by number; None where it is unknown, so that an ingest reads everything.
    """

    instant_ms: int
    topics: Mapping[TopicPartition, Bounds]
    offsets_log: Mapping[int, int] | None = None

    def to_json(self, through_batch: int) -> bytes:
        """The file for a warehouse whose silver tables hold the commits up to this instant and none after it."""
        ends = [[*partition, *bounds] for partition, bounds in sorted(self.topics.items())]
        document = {"instant_ms": self.instant_ms, "through_batch": through_batch, "log_ends": ends}
        return json.dumps(document).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes, through_batch: int) -> Self | None:
        """The snapshot in such a file; None when it was taken for other batches than those up to this one.

        Raises ValueError, KeyError and TypeError for a file of other content.
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
