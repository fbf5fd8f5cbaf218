"""Which logs of a server are to be compacted, and how far."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from coordinator.engine.runtime import Runtime
from coordinator.server.cleaner import Compactable
from coordinator.topics.partition import HostedPartition


def compactable_logs(
    hosted: Callable[[], Iterable[HostedPartition]], internal: Iterable[Runtime[Any]]
) -> Iterator[Compactable]:
    """In: the partitions that clients produce to, as they are now; the internal topics that are compacted."""
    for each in hosted():
        if each.log is not None and each.producers is not None and each.log.config.compacts:
            stable_offset = each.producers.last_stable_offset(each.high_watermark)
            yield Compactable(each.name, each.log, stable_offset, each.producers.state.is_last)
    for partition in chain.from_iterable(runtime.partitions for runtime in internal):
        if partition.log is not None and partition.producers is not None:
            is_last = partition.producers.state.is_last
            yield Compactable(partition.name, partition.log, partition.last_stable_offset, is_last)
