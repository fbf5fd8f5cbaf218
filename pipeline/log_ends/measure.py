"""Choosing where log ends come from."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator

from pipeline.log_ends.cluster import ends_of_cluster, parse_address
from pipeline.log_ends.directory import ends_in_directory
from pipeline.log_ends.file import ends_in_file
from pipeline.log_ends.log_end import LogEnd, Period
from storage.topic_partition import TopicPartition

Measure = Callable[[Collection[TopicPartition], Period], Iterable[LogEnd]]
"""Finds log ends: of these partitions, over this period. May raise BadInput."""


def measure_nothing(_partitions: Collection[TopicPartition], _period: Period) -> list[LogEnd]:
    """No log ends are known: lag is not either."""
    return []


def measurer(log_dir: str | None, bootstrap: str | None, log_end_offsets: str | None) -> Measure:
    """From a live cluster, else from a file, else from the topic logs in a directory, else from nowhere.

    A file is read, and an address looked at, at once: BadInput for what is no use.
    """
    if bootstrap is not None:
        parse_address(bootstrap)
        return lambda partitions, period: ends_of_cluster(bootstrap, partitions, period)
    if log_end_offsets is not None:
        ends = ends_in_file(log_end_offsets, _now_ms())
        return lambda partitions, _: _only(partitions, ends)
    path = None if log_dir is None else log_dir.removeprefix("file://")
    if path is None or "://" in path:
        return measure_nothing
    return lambda partitions, period: ends_in_directory(path, partitions, period, _now_ms())


def _only(partitions: Collection[TopicPartition], ends: Iterable[LogEnd]) -> Iterator[LogEnd]:
    wanted = set(partitions)
    return (end for end in ends if TopicPartition(end.topic, end.partition) in wanted)


def _now_ms() -> int:
    return int(time.time() * 1000)
