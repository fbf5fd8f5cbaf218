"""Which logs of a server are to be compacted, and how far."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coordinator.engine.partition import Partition
from coordinator.server.cleaner import Compactable
from coordinator.topics.partition import HostedPartition
from storage.batch import BatchHeader


def compactable_logs(
    hosted: Callable[[], Iterable[HostedPartition]], internal: Iterable[Partition[Any]]
) -> Iterator[Compactable]:
    """In: the partitions that clients produce to, as they are now; those of internal topics that are compacted."""
    for each in hosted():
        if each.log is not None and each.producers is not None and each.log.config.compacts:
            stable_offset = each.producers.last_stable_offset(each.high_watermark)
            yield Compactable(each.name, each.log, stable_offset, each.producers.state.is_last)
    for partition in internal:
        if partition.log is not None and partition.machine is not None:
            yield Compactable(partition.name, partition.log, partition.readable_offset, _no_producers)


def _no_producers(header: BatchHeader) -> bool:
    """Nobody produces to the offsets of groups with a sequence."""
    return False
