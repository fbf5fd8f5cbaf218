"""Choose the source of log ends."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator

from pipeline.log_ends.cluster import ends_of_cluster, parse_address, snapshot_of_cluster
from pipeline.log_ends.directory import ends_in_directory, offsets_log_in_directory, snapshot_of_directory
from pipeline.log_ends.file import ends_in_file
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.snapshot import Snapshot, TakeSnapshot
from storage.topic_partition import TopicPartition

Measure = Callable[[Collection[TopicPartition], Period, Snapshot], Iterable[LogEnd]]
"""Return the log ends of partitions over a period up to the time of the snapshot. May raise BadInput."""


def measure_nothing(*_: object) -> list[LogEnd]:
    """Return no log ends, so the lag is unknown."""
    return []


def measurer(log_dir: str | None, bootstrap: str | None, log_end_offsets: str | None) -> Measure:
    """Return the function that measures log ends: at a live cluster, else from a file, else from the topic logs in
    a directory, else none.

    Raises:
        BadInput: the file or the address is invalid; both are checked at once.
    """
    if bootstrap is not None:
        parse_address(bootstrap)
        return lambda *wanted: ends_of_cluster(bootstrap, *wanted)
    if log_end_offsets is not None:
        ends = ends_in_file(log_end_offsets, _now_ms())
        return lambda partitions, *_: _only(partitions, ends)
    path = None if log_dir is None else _local_path(log_dir)
    if path is None:
        return measure_nothing
    return lambda *wanted: ends_in_directory(path, *wanted)


def snapshot_taker(log_dir: str, bootstrap: str | None) -> TakeSnapshot:
    """Return the function that takes the snapshot of an ingest of `log_dir`.

    It measures the cluster if one is given, else the directory. At a URL without a cluster it only takes the time.
    """
    path = _local_path(log_dir)
    if bootstrap is not None:
        return lambda: _snapshot_of_both(bootstrap, path)
    if path is not None:
        return lambda: snapshot_of_directory(path)
    return lambda: Snapshot(_now_ms(), {})


def _snapshot_of_both(bootstrap: str, path: str | None) -> Snapshot:
    """Return the topics of the cluster and the offsets log of the directory. The end of a partition is the
    cluster's, or the directory's if the cluster does not know it or has another log.
    """
    if path is None:
        return snapshot_of_cluster(bootstrap)._replace(offsets_log=None)
    before = offsets_log_in_directory(path)
    cluster = snapshot_of_cluster(bootstrap)
    after, told = offsets_log_in_directory(path), cluster.offsets_log or {}
    return cluster._replace(
        offsets_log={
            number: told[number] if before.get(number, 0) <= told.get(number, -1) else end
            for number, end in after.items()
        }
    )


def _local_path(location: str) -> str | None:
    path = location.removeprefix("file://")
    return None if "://" in path else path


def _only(partitions: Collection[TopicPartition], ends: Iterable[LogEnd]) -> Iterator[LogEnd]:
    wanted = set(partitions)
    return (end for end in ends if TopicPartition(end.topic, end.partition) in wanted)


def _now_ms() -> int:
    return int(time.time() * 1000)
