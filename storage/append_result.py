"""What an append to a log came to."""

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Where a batch went. Its records are durable once the log's durable offset exceeds `last_offset`."""

    base_offset: int
    last_offset: int
    size_bytes: int
    is_rolled: bool
    """The batch began a new segment: time to sync a log that is not synced otherwise, as Kafka does then."""
