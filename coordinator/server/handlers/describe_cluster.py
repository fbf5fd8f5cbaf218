"""DescribeCluster: the brokers that live. Source: KIP-700, KIP-919, Kafka's `KafkaApis.handleDescribeCluster`."""

from typing import Final

from coordinator.cluster.ownership import Ownership
from coordinator.net.caller import Caller
from coordinator.topics.authorized_operations import NOT_ASKED, ON_CLUSTER
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


class DescribeClusterHandler:
    """Answers DescribeCluster."""

    def __init__(self, cluster_id: str, ownership: Ownership) -> None:
        self._cluster_id = cluster_id
        self._ownership = ownership

    def handle(self, request: DescribeClusterRequest, caller: Caller) -> DescribeClusterResponse:
        """The cluster as this client should know it."""
        if request.endpoint_type != _BROKERS:
            return self._refusal(request.endpoint_type)
        nodes = [broker.seen_from(caller.node) for broker in self._ownership.brokers.values()]
        asked = request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            endpoint_type=request.endpoint_type,
            cluster_id=self._cluster_id,
            controller_id=nodes[0].node_id,
            brokers=[
                DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in nodes
            ],
            cluster_authorized_operations=ON_CLUSTER if asked else NOT_ASKED,
        )

    def _refusal(self, endpoint_type: int) -> DescribeClusterResponse:
        if endpoint_type == _CONTROLLERS:
            error, message = (
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "this endpoint is a broker's, not a controller's",
            )
        else:
            error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = f"there is no endpoint type {endpoint_type}"
        return DescribeClusterResponse(error_code=error, error_message=message, cluster_id="", brokers=[])
