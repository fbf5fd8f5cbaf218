"""Topics that the command line declares: they are there when the server is."""

from collections.abc import Iterable

from coordinator.server.start_failed import StartFailed
from coordinator.topics.answer import TopicChange
from coordinator.topics.data_plane import DataPlane, TopicsDeclaredSmaller
from coordinator.topics.open_files import TooManyPartitions


def declare_topics(data_plane: DataPlane, topics: Iterable[tuple[str, int]]) -> list[TopicChange]:
    """Makes topics, or lets them grow; what that changed. In: names, and how many partitions. Raises StartFailed,
    StorageError, OSError."""
    changes: list[TopicChange] = []
    for name, partitions in topics:
        try:
            change = data_plane.declare(name, partitions)
        except (ValueError, TopicsDeclaredSmaller, TooManyPartitions) as error:
            raise StartFailed(f"topic {name}:{partitions}: {error}") from error
        if change is not None:
            changes.append(change)
    return changes
