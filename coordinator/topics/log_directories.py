"""DescribeLogDirs: the sizes of the logs in the data directory. Source: KIP-113, KIP-827, Kafka's
`ReplicaManager.describeLogDirs`.
"""

from collections.abc import Iterator

from coordinator.core.outcome import Context, Now
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer, DirectoryFailed
from coordinator.topics.topic import Topic
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.storage_errors import format_error_reason


def answer_describe_log_dirs(
    plane: DataPlane, request: DescribeLogDirsRequest, context: Context, now: Now
) -> Answer:
    """Describe the only data directory with the requested open logs. As in Kafka other logs are omitted."""
    directory = plane.directory
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory.path, topics=[])
    answer = Answer(DescribeLogDirsResponse(results=[result]))
    try:
        result.total_bytes, result.usable_bytes = directory.files.space(directory.path)
    except OSError as error:
        answer.changes = [DirectoryFailed(directory.path, format_error_reason(error, directory.path))]
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.topics = list(_describe_topics(plane, request, context))
    return answer


def _describe_topics(
    plane: DataPlane, request: DescribeLogDirsRequest, context: Context
) -> Iterator[DescribeLogDirsTopic]:
    for topic, numbers in _find_requested(plane.catalogue, request).items():
        own = {number for number in numbers if plane.is_leader(topic.partitions[number].name, context)}
        partitions = list(_describe_partitions(topic, own))
        if partitions:
            yield DescribeLogDirsTopic(name=topic.name, partitions=partitions)


def _find_requested(catalogue: Catalogue, request: DescribeLogDirsRequest) -> dict[Topic, set[int]]:
    """Yield the requested partitions that exist."""
    if request.topics is None:
        return {topic: set(range(len(topic.partitions))) for topic in catalogue.listed()}
    wanted: dict[Topic, set[int]] = {}
    for requested in request.topics:
        topic = catalogue.find_topic(requested.topic)
        if topic is not None:
            existing = range(len(topic.partitions))
            wanted.setdefault(topic, set()).update(
                number for number in requested.partitions if number in existing
            )
    return wanted


def _describe_partitions(topic: Topic, numbers: set[int]) -> Iterator[DescribeLogDirsPartition]:
    for number in sorted(numbers):
        log = topic.partitions[number].log
        if log is not None:
            yield DescribeLogDirsPartition(
                partition_index=number, partition_size=log.size_bytes, offset_lag=0, is_future_key=False
            )
