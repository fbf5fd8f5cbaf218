"""DescribeLogDirs: the sizes of the logs in the data directory. Source: KIP-113, KIP-827, Kafka's
`ReplicaManager.describeLogDirs`.
"""

from coordinator.core.outcome import Context
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer, DirectoryFailed
from coordinator.topics.long_work import LongWork
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


async def answer_describe_log_dirs(
    plane: DataPlane, request: DescribeLogDirsRequest, context: Context, work: LongWork
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
        requested = await _find_requested(plane.catalogue, request, work)
        for topic, numbers in requested.items():
            partitions = await _describe_partitions(plane, topic, numbers, context, work)
            if partitions:
                result.topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return answer


async def _find_requested(
    catalogue: Catalogue, request: DescribeLogDirsRequest, work: LongWork
) -> dict[Topic, set[int]]:
    """Return the requested partitions that exist, by topic."""
    if request.topics is None:
        return {topic: set(range(len(topic.partitions))) for topic in catalogue.listed()}
    wanted: dict[Topic, set[int]] = {}
    for requested in request.topics:
        topic = catalogue.find_topic(requested.topic)
        await work.checkpoint()
        if topic is not None:
            existing, numbers = range(len(topic.partitions)), wanted.setdefault(topic, set())
            for number in requested.partitions:
                if number in existing:
                    numbers.add(number)
                await work.checkpoint()
    return wanted


async def _describe_partitions(
    plane: DataPlane, topic: Topic, numbers: set[int], context: Context, work: LongWork
) -> list[DescribeLogDirsPartition]:
    """Describe the open logs of this broker, without those of a topic that is deleted meanwhile."""
    described: list[DescribeLogDirsPartition] = []
    for number in sorted(numbers):
        await work.checkpoint()
        if plane.catalogue.find_topic(topic.name) is not topic:
            return []
        partition = topic.partitions[number]
        if partition.log is not None and plane.is_leader(partition.name, context):
            described.append(
                DescribeLogDirsPartition(
                    partition_index=number,
                    partition_size=partition.log.size_bytes,
                    offset_lag=0,
                    is_future_key=False,
                )
            )
    return described
