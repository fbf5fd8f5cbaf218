"""ListPartitionReassignments: what waits for a broker that is stopped.

Source: KIP-455, Kafka's `ReplicationControlManager.listPartitionReassignments`.
"""

from collections.abc import Iterable

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from protocol.errors import ErrorCode
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from storage.topic_partition import TopicPartition


def answer_list_partition_reassignments(
    plane: DataPlane, request: ListPartitionReassignmentsRequest, context: Context, now: Now
) -> Steps:
    """All of them, or those among the partitions that are asked for; what is not there is not being reassigned."""
    response = ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
    for name, numbers in _asked(plane, request):
        topic = OngoingTopicReassignment(name=name, partitions=[])
        for number in numbers:
            reassignment = plane.ownership.reassigning.get(TopicPartition(name, number))
            if reassignment is not None:
                topic.partitions.append(
                    OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=list(reassignment.replicas),
                        adding_replicas=list(reassignment.adding),
                        removing_replicas=list(reassignment.removing),
                    )
                )
            yield None
        if topic.partitions:
            response.topics.append(topic)
    return Answer(response)


def _asked(
    plane: DataPlane, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topics is not None:
        return [(topic.name, topic.partition_indexes) for topic in request.topics]
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(plane.ownership.reassigning):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return list(by_topic.items())
