"""DescribeCluster, DescribeLogDirs, WriteTxnMarkers: rights on the cluster."""

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Verdict
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def guard_describe(request: DescribeClusterRequest, permits: Permits) -> Verdict:
    """Everybody may know the brokers; what a client may do to the cluster is told to whoever may describe it."""
    if not request.include_cluster_authorized_operations:
        return PASS

    def finish(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if response.error_code == ErrorCode.NONE:
            response.cluster_authorized_operations = permits.operations_on_cluster()
        return response

    return Pass(finish)


def guard_describe_log_dirs(request: DescribeLogDirsRequest, permits: Permits) -> Verdict:
    """DESCRIBE. Below v3 there is no error: no directories are shown."""
    if permits.allows_on_cluster(Operation.DESCRIBE):
        return PASS
    return Refused(DescribeLogDirsResponse(error_code=_DENIED, results=[]))


def guard_write_txn_markers(request: WriteTxnMarkersRequest, permits: Permits) -> Verdict:
    """ALTER or CLUSTER_ACTION; else an error for each partition."""
    if permits.allows_on_cluster(Operation.ALTER, logs_denied=False):
        return PASS
    if permits.allows_on_cluster(Operation.CLUSTER_ACTION):
        return PASS
    markers = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(partition_index=index, error_code=_DENIED)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    return Refused(WriteTxnMarkersResponse(markers=markers))
