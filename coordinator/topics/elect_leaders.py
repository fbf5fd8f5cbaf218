"""ElectLeaders: partitions go back to their preferred leaders, or get any leader at all.

Source: KIP-183, KIP-460, Kafka's `ReplicationControlManager.electLeaders`.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.deadline import out_of_time
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from storage.topic_partition import TopicPartition


class ElectionType(IntEnum):
    """As requests carry it."""

    PREFERRED = 0
    UNCLEAN = 1


def answer_elect_leaders(plane: DataPlane, request: ElectLeadersRequest, context: Context, now: Now) -> Steps:
    """Each partition on its own. Where all are asked for those are left out that have the leader already."""
    asked = _asked(plane, request)
    if not asked:
        return Answer(ElectLeadersResponse(replica_election_results=[]))
    refusal = out_of_time(request.timeout_ms)
    if refusal is None and request.election_type not in list(ElectionType):
        refusal = Refusal(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    response = ElectLeadersResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.code, replica_election_results=[]
    )
    is_all = request.topic_partitions is None
    if is_all and refusal is not None:
        return Answer(response)
    yield Mark.CHANGES
    for name, numbers in asked:
        answered = ReplicaElectionResult(topic=name, partition_result=[])
        response.replica_election_results.append(answered)
        for number in numbers:
            result = PartitionResult(partition_id=number, error_code=ErrorCode.NONE, error_message=None)
            try:
                if refusal is not None:
                    raise refusal
                _elect(plane, name, number, ElectionType(request.election_type))
            except Refusal as error:
                result.error_code, result.error_message = error.code, error.message
            if not (is_all and result.error_code == ErrorCode.ELECTION_NOT_NEEDED):
                answered.partition_result.append(result)
            yield None
    return Answer(response)


def _asked(plane: DataPlane, request: ElectLeadersRequest) -> Sequence[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, range(len(topic.partitions))) for topic in plane.catalogue]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _elect(plane: DataPlane, name: str, number: int, election: ElectionType) -> None:
    if plane.catalogue.get(name) is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if plane.catalogue.partition(name, number) is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    partition, ownership = TopicPartition(name, number), plane.ownership
    owner, preferred = ownership.owner(partition), next(iter(ownership.replicas(partition)), None)
    if election is ElectionType.UNCLEAN:
        # A replica that lives is the leader already: none is behind another.
        if owner is None:
            raise Refusal(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if owner == preferred:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if preferred not in ownership.brokers:
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    ownership.elect_preferred(partition)
