"""DescribeLogDirs: what the logs in the data directory weigh. Source: KIP-113, KIP-827, Kafka's
`ReplicaManager.describeLogDirs`.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from coordinator.topics.catalogue import Catalogue, Topic
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.data_directory import DataDirectory

_LOG: Final = logging.getLogger("ReplicaManager")


def answer_describe_log_dirs(
    catalogue: Catalogue, directory: DataDirectory, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """The one directory there is, with the logs that are asked for and open; others are left out, as in Kafka."""
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory.path, topics=[])
    try:
        result.total_bytes, result.usable_bytes = directory.files.space(directory.path)
    except OSError as error:
        _LOG.warning("Unable to describe replica dirs for %s: %s", directory.path, error)
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.topics = list(_topics(catalogue, request))
    return DescribeLogDirsResponse(results=[result])


def _topics(catalogue: Catalogue, request: DescribeLogDirsRequest) -> Iterator[DescribeLogDirsTopic]:
    if request.topics is None:
        wanted = {topic.name: set(range(len(topic.partitions))) for topic in catalogue}
    else:
        wanted = {}
        for asked in request.topics:
            wanted.setdefault(asked.topic, set()).update(asked.partitions)
    for name, numbers in wanted.items():
        topic = catalogue.get(name)
        partitions = [] if topic is None else list(_partitions(topic, sorted(numbers)))
        if partitions:
            yield DescribeLogDirsTopic(name=name, partitions=partitions)


def _partitions(topic: Topic, numbers: Iterable[int]) -> Iterator[DescribeLogDirsPartition]:
    for number in numbers:
        log = topic.partitions[number].log if 0 <= number < len(topic.partitions) else None
        if log is not None:
            yield DescribeLogDirsPartition(
                partition_index=number, partition_size=log.size_bytes, offset_lag=0, is_future_key=False
            )
