"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders: rights on the cluster.

A refusal has the error once for the whole answer and once for each partition. Source: Kafka's `ControllerApis`, and
`getErrorResponse` of the requests.
"""

from typing import Final

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Refused, Verdict
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
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

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_WHY: Final = _DENIED.message


def guard_alter(request: AlterPartitionReassignmentsRequest, permits: Permits) -> Verdict:
    """ALTER."""
    if permits.allows_on_cluster(Operation.ALTER):
        return PASS
    refused = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=_DENIED, error_message=_WHY
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return Refused(
        AlterPartitionReassignmentsResponse(error_code=_DENIED, error_message=_WHY, responses=refused)
    )


def guard_list(request: ListPartitionReassignmentsRequest, permits: Permits) -> Verdict:
    """DESCRIBE. As in Kafka the partitions that were asked for are there, without replicas."""
    if permits.allows_on_cluster(Operation.DESCRIBE):
        return PASS
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=number, replicas=[], adding_replicas=[], removing_replicas=[]
                )
                for number in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return Refused(ListPartitionReassignmentsResponse(error_code=_DENIED, error_message=_WHY, topics=topics))


def guard_elect(request: ElectLeadersRequest, permits: Permits) -> Verdict:
    """ALTER."""
    if permits.allows_on_cluster(Operation.ALTER):
        return PASS
    refused = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=number, error_code=_DENIED, error_message=_WHY)
                for number in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return Refused(ElectLeadersResponse(error_code=_DENIED, replica_election_results=refused))
