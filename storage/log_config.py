"""The properties of a partition's log that the engine uses, under Kafka's names."""

from typing import Final

from msgspec import Struct

DELETE: Final = "delete"
COMPACT: Final = "compact"
MAX_SEGMENT_BYTES: Final = 2**31 - 1
"""The maximum size of a segment in bytes. The index has signed 32-bit positions, and so has Kafka's property."""


class LogConfig(Struct, frozen=True):
    """Topic properties with Kafka's defaults. Sizes are in bytes, times in milliseconds, -1 for no limit."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    cleanup_policy: str = DELETE
    """`delete`, `compact` or both, comma-separated."""
    sync_on_roll: bool = False
    """Whether a full segment is synced before the next one gets its first byte. For logs that are synced after
    every loop iteration, so that little is unsynced: a crash then cannot lose the end of a segment and keep
    the next one."""

    min_cleanable_dirty_ratio: float = 0.5
    """The minimum share of never compacted bytes at which compaction starts."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    """Compaction leaves records alone that are younger than `min_compaction_lag_ms`. A record older than
    `max_compaction_lag_ms` makes it due at any dirty ratio."""
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    """The time for which a tombstone stays after the first compaction that read it, in milliseconds."""

    def __post_init__(self) -> None:
        assert self.segment_bytes <= MAX_SEGMENT_BYTES, self.segment_bytes

    @property
    def compacts(self) -> bool:
        """Whether compaction removes old values of a key, so that offsets have gaps."""
        return COMPACT in self.cleanup_policy.split(",")

    @property
    def deletes(self) -> bool:
        """Whether retention deletes whole segments by age and size."""
        return DELETE in self.cleanup_policy.split(",")
