"""The name of a log: a topic and the number of a partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic. Its text is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
