"""AlterPartitionReassignments: partitions get other replicas, and with them another leader or coordinator.

Nothing is copied: what is asked for is done at once, unless a broker that is new to a partition is stopped; then it
is in progress until that lives. Source: KIP-455, KIP-860, Kafka's `ReplicationControlManager`.
"""

from collections import Counter
from collections.abc import Sequence

from coordinator.cluster.ownership import Ownership
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.deadline import out_of_time
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from storage.topic_partition import TopicPartition


def answer_alter_partition_reassignments(
    plane: DataPlane, request: AlterPartitionReassignmentsRequest, context: Context, now: Now
) -> Steps:
    """Each partition on its own, in the order of the request."""
    response = AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None, responses=[]
    )
    if not request.topics:
        response.error_message = ""
        return Answer(response)
    late = out_of_time(request.timeout_ms)
    if late is not None:
        response.error_code = late.code
    else:
        response.allow_replication_factor_change = request.allow_replication_factor_change
    yield Mark.CHANGES
    for topic in request.topics:
        answered = ReassignableTopicResponse(name=topic.name, partitions=[])
        response.responses.append(answered)
        for asked in topic.partitions:
            error, message = ErrorCode.NONE, None
            try:
                if late is not None:
                    raise late
                _reassign(plane, topic.name, asked, request.allow_replication_factor_change)
            except Refusal as refusal:
                error, message = refusal.code, refusal.message
            answered.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=error, error_message=message
                )
            )
            yield None
    return Answer(response)


def _reassign(plane: DataPlane, name: str, asked: ReassignablePartition, changes_count: bool) -> None:
    if plane.catalogue.get(name) is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if plane.catalogue.partition(name, asked.partition_index) is None:
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{asked.partition_index}."
        )
    partition, ownership = TopicPartition(name, asked.partition_index), plane.ownership
    if asked.replicas is None:
        if partition not in ownership.reassigning:
            raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        ownership.cancel_reassignment(partition)
        return
    _check(partition, asked.replicas, ownership)
    if not changes_count:
        underway = ownership.reassigning.get(partition)
        count = len(ownership.replicas(partition) if underway is None else underway.origin)
        if count != len(asked.replicas):
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {count} to {len(asked.replicas)}",
            )
    ownership.reassign(partition, asked.replicas)


def _check(partition: TopicPartition, replicas: Sequence[int], ownership: Ownership) -> None:
    problem = None
    if not replicas:
        problem = "The manual partition assignment includes an empty replica list."
    elif unknown := [each for each in replicas if each not in ownership.registered]:
        problem = (
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
        )
    elif len(set(replicas)) < len(replicas):
        [(twice, _)] = Counter(replicas).most_common(1)
        problem = f"The manual partition assignment includes the broker {twice} more than once."
    elif len(replicas) > ownership.most_replicas(partition.topic):
        problem = f"{partition} has one replica here, and {len(replicas)} are asked for: nothing is copied."
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
