"""Which records are wanted."""

from dataclasses import dataclass, field

from coordinator.cli.log.entry import Entry
from storage.batch import BatchHeader
from storage.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters that all have to hold; of several values of one, any. An empty one holds for everything."""

    groups: frozenset[str] = field(default_factory=frozenset)
    topics: frozenset[str] = field(default_factory=frozenset)
    types: frozenset[str] = field(default_factory=frozenset)
    partitions: frozenset[int] = field(default_factory=frozenset)
    since_ms: int | None = None
    """Not before."""
    until_ms: int | None = None
    """Before."""
    from_offset: int = 0

    @property
    def is_selective(self) -> bool:
        """Whether long stretches of a log may hold nothing that is wanted."""
        times = (self.since_ms, self.until_ms)
        return bool(self.groups or self.topics or self.types) or times != (None, None)

    def takes_log(self, name: TopicPartition | None) -> bool:
        """Whether a log can hold anything that is wanted."""
        return not self.partitions or (name is not None and name.partition in self.partitions)

    def takes_batch(self, header: BatchHeader) -> bool:
        """Whether a batch can, by its header."""
        if header.last_offset < self.from_offset:
            return False
        return self.since_ms is None or header.max_timestamp_ms >= self.since_ms

    def takes(self, entry: Entry) -> bool:
        """Whether a record of such a batch is wanted."""
        record = entry.record
        return (
            record.offset >= self.from_offset
            and (self.since_ms is None or record.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or record.timestamp_ms < self.until_ms)
            and (not self.types or entry.type in self.types)
            and (not self.groups or entry.group in self.groups)
            and (not self.topics or self._takes_topic(entry))
        )

    def _takes_topic(self, entry: Entry) -> bool:
        if entry.name is not None and entry.name.topic in self.topics:
            return True
        return not self.topics.isdisjoint(entry.topics())
