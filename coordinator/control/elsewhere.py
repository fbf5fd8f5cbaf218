"""Groups that another process coordinates: what is said of them to whoever asks this one."""

from coordinator.cluster.ownership import Ownership
from storage.topic_partition import TopicPartition


def coordinated_elsewhere(ownership: Ownership, partition: TopicPartition) -> str | None:
    """The rest of a sentence about a partition that another process coordinates, or nobody for now; None for one
    that is this process's own."""
    if not ownership.is_far(partition):
        return None
    owner = ownership.owner(partition)
    return "has no coordinator now" if owner is None else f"is coordinated by broker {owner}: ask that one"
