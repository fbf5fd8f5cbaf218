"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.outcome import Context
from coordinator.topics.api_error import ApiError, find_timeout_error
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer
from coordinator.topics.long_work import LongWork
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from storage.topic_partition import TopicPartition

_LEFT_OUT: Final = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""An election for all partitions omits results with these errors."""


class ElectionType(IntEnum):
    """The election types by their codes in requests."""

    PREFERRED = 0
    UNCLEAN = 1


async def answer_alter_partition_reassignments(
    plane: DataPlane, request: AlterPartitionReassignmentsRequest, context: Context, work: LongWork
) -> Answer:
    """Reassign or reject each partition independently, in the order of the request."""
    response = AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None, responses=[]
    )
    if not request.topics:
        response.error_message = ""
        return Answer(response)
    timeout_error = find_timeout_error(request.timeout_ms)
    if timeout_error is not None:
        response.error_code = timeout_error.code
    else:
        response.allow_replication_factor_change = request.allow_replication_factor_change
    work.begin_changes()
    for topic in request.topics:
        topic_response = ReassignableTopicResponse(name=topic.name, partitions=[])
        response.responses.append(topic_response)
        for requested in topic.partitions:
            error, message = ErrorCode.NONE, None
            try:
                if timeout_error is not None:
                    raise timeout_error
                _reassign_partition(plane, topic.name, requested, request.allow_replication_factor_change)
            except ApiError as api_error:
                error, message = api_error.code, api_error.message
            topic_response.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=requested.partition_index, error_code=error, error_message=message
                )
            )
            await work.checkpoint()
    return Answer(response)


def _reassign_partition(
    plane: DataPlane, name: str, requested: ReassignablePartition, changes_count: bool
) -> None:
    if plane.catalogue.find_topic(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if plane.catalogue.find_partition(name, requested.partition_index) is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{requested.partition_index}.",
        )
    partition, ownership = TopicPartition(name, requested.partition_index), plane.ownership
    if requested.replicas is None:
        if partition not in ownership.reassigning:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        ownership.cancel_reassignment(partition)
        return
    _check_replicas(partition, requested.replicas, ownership)
    if not changes_count:
        underway = ownership.reassigning.get(partition)
        count = len(ownership.find_replicas(partition) if underway is None else underway.origin)
        if count != len(requested.replicas):
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {count} to {len(requested.replicas)}",
            )
    ownership.reassign_replicas(partition, requested.replicas)


def _check_replicas(
    partition: TopicPartition, replicas: Sequence[int], ownership: PartitionOwnership
) -> None:
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
    elif len(replicas) > ownership.max_replicas(partition.topic):
        problem = (
            f"{partition} can have only one replica here, not {len(replicas)}, because groupd does not copy "
            "records."
        )
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


async def answer_list_partition_reassignments(
    plane: DataPlane, request: ListPartitionReassignmentsRequest, context: Context, work: LongWork
) -> Answer:
    """List the reassignments of all partitions, or of the partitions in the request."""
    response = ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
    for name, numbers in _find_requested_partitions(plane, request):
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
            await work.checkpoint()
        if topic.partitions:
            response.topics.append(topic)
    return Answer(response)


def _find_requested_partitions(
    plane: DataPlane, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topics is not None:
        yield from ((topic.name, topic.partition_indexes) for topic in request.topics)
        return
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(plane.ownership.reassigning):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    yield from by_topic.items()


async def answer_elect_leaders(
    plane: DataPlane, request: ElectLeadersRequest, context: Context, work: LongWork
) -> Answer:
    """Elect the leader of each partition independently. A request for all partitions omits those with the elected
    leader already, and those deleted meanwhile.
    """
    is_all = request.topic_partitions is None
    if not (plane.catalogue.listed() if is_all else request.topic_partitions):
        return Answer(ElectLeadersResponse(replica_election_results=[]))
    request_error = find_timeout_error(request.timeout_ms)
    if request_error is None and request.election_type not in list(ElectionType):
        request_error = ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    response = ElectLeadersResponse(
        error_code=ErrorCode.NONE if request_error is None else request_error.code,
        replica_election_results=[],
    )
    if is_all and request_error is not None:
        return Answer(response)
    work.begin_changes()
    for name, numbers in _find_partitions_to_elect(plane, request):
        topic_result = ReplicaElectionResult(topic=name, partition_result=[])
        response.replica_election_results.append(topic_result)
        for number in numbers:
            result = PartitionResult(partition_id=number, error_code=ErrorCode.NONE, error_message=None)
            try:
                if request_error is not None:
                    raise request_error
                _elect_leader(plane, name, number, ElectionType(request.election_type))
            except ApiError as error:
                result.error_code, result.error_message = error.code, error.message
            if not (is_all and result.error_code in _LEFT_OUT):
                topic_result.partition_result.append(result)
            await work.checkpoint()
    return Answer(response)


def _find_partitions_to_elect(
    plane: DataPlane, request: ElectLeadersRequest
) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is not None:
        yield from ((topic.topic, topic.partitions) for topic in request.topic_partitions)
        return
    # Topics may be created or deleted while the caller elects leaders.
    yield from [(topic.name, range(len(topic.partitions))) for topic in plane.catalogue.listed()]


def _elect_leader(plane: DataPlane, name: str, number: int, election: ElectionType) -> None:
    if plane.catalogue.find_topic(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if plane.catalogue.find_partition(name, number) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    partition, ownership = TopicPartition(name, number), plane.ownership
    owner, preferred = ownership.find_owner(partition), next(iter(ownership.find_replicas(partition)), None)
    if election is ElectionType.UNCLEAN:
        # A live replica is the leader already, because all replicas are in sync.
        if owner is None:
            raise ApiError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if owner == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if preferred not in ownership.brokers:
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    ownership.elect_preferred(partition)
