"""Which logs of a server are to be compacted, and how far."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from coordinator.engine.runtime import Runtime
from coordinator.server.cleaner import Compactable
from coordinator.topics.partition import HostedPartition


def compactable_logs(
    hosted: Callable[[], Iterable[HostedPartition]],
    internal: Mapping[str, Runtime[Any]],
    kept: Runtime[Any] | None,
) -> Iterator[Compactable]:
    """In: the partitions that clients produce to, as they are now; the internal topics, of which one may come into
    being later; that of them which is kept whole.
    """
    for each in hosted():
        if each.log is not None and each.producers is not None and each.log.config.compacts:
            stable_offset = each.producers.last_stable_offset(each.high_watermark)
            yield Compactable(each.name, each.log, stable_offset, each.producers.state.is_last)
    for partition in chain.from_iterable(each.partitions for each in internal.values() if each is not kept):
        if partition.log is not None and partition.producers is not None:
            is_last = partition.producers.state.is_last
            yield Compactable(partition.name, partition.log, partition.last_stable_offset, is_last)
