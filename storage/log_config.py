"""The properties of one partition's log that the engine obeys, under Kafka's names."""

from typing import Final

from msgspec import Struct

DELETE: Final = "delete"
COMPACT: Final = "compact"
MAX_SEGMENT_BYTES: Final = 2**31 - 1
"""The index keeps positions in 32 bits with a sign. Kafka's property is of that type, too."""


class LogConfig(Struct, frozen=True):
    """Topic properties, Kafka's defaults; sizes in bytes, times in milliseconds, -1 for no limit."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    cleanup_policy: str = DELETE
    """`delete`, `compact` or both, comma-separated."""
    sync_on_roll: bool = False
    """Sync a full segment before the next one takes its first byte. For logs that are synced at every turn,
    where little is left to sync: a crash can then never keep a segment and lose the end of the one before
    it.
    """

    min_cleanable_dirty_ratio: float = 0.5
    """Compaction waits until this share of the bytes was never compacted."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    """Compaction leaves younger records alone; older ones do not wait for the ratio."""
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    """How long a tombstone stays after compaction has met it first."""

    def __post_init__(self) -> None:
        assert self.segment_bytes <= MAX_SEGMENT_BYTES, self.segment_bytes

    @property
    def compacts(self) -> bool:
        """Whether old values of a key go, so that offsets have gaps."""
        return COMPACT in self.cleanup_policy.split(",")

    @property
    def deletes(self) -> bool:
        """Whether whole segments go by age and size."""
        return DELETE in self.cleanup_policy.split(",")
