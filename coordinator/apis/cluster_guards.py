"""Guards of APIs that need rights on the cluster: DescribeCluster, DescribeLogDirs, WriteTxnMarkers,
AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders, DescribeClientQuotas,
DescribeUserScramCredentials, AlterUserScramCredentials.

DescribeCluster itself is open; only the authorized operations in its response need DESCRIBE. Denied responses
have Kafka's form: AlterPartitionReassignments and ElectLeaders repeat the error for each partition. Source:
Kafka's `ControllerApis`, and `getErrorResponse` of its requests.
"""

from typing import Final

from coordinator.apis.auth_helper import PASS, AuthHelper, GuardPassed, GuardResult
from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def guard_describe_cluster(request: DescribeClusterRequest, helper: AuthHelper) -> GuardResult:
    """Every client gets the brokers. The authorized operations on the cluster need DESCRIBE on it."""
    if not request.include_cluster_authorized_operations:
        return PASS

    def finish(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if response.error_code == ErrorCode.NONE:
            response.cluster_authorized_operations = helper.find_cluster_operations()
        return response

    return GuardPassed(finish)


def guard_describe_log_dirs(request: DescribeLogDirsRequest, helper: AuthHelper) -> GuardResult:
    """DESCRIBE. Versions below 3 have no error field, so their response lists no directories."""
    if helper.allows_on_cluster(AclOperation.DESCRIBE):
        return PASS
    return helper.deny_request(request, _DENIED)


def guard_write_txn_markers(request: WriteTxnMarkersRequest, helper: AuthHelper) -> GuardResult:
    """ALTER or CLUSTER_ACTION; else an error for each partition."""
    if helper.allows_on_cluster(AclOperation.ALTER, logs_denied=False):
        return PASS
    if helper.allows_on_cluster(AclOperation.CLUSTER_ACTION):
        return PASS
    return helper.deny_request(request, _DENIED)


def guard_alter_reassignments(request: AlterPartitionReassignmentsRequest, helper: AuthHelper) -> GuardResult:
    """ALTER."""
    if helper.allows_on_cluster(AclOperation.ALTER):
        return PASS
    return helper.deny_request(request, _DENIED, _DENIED.message)


def guard_list_reassignments(request: ListPartitionReassignmentsRequest, helper: AuthHelper) -> GuardResult:
    """DESCRIBE. As in Kafka, the error response lists the requested partitions without replicas."""
    if helper.allows_on_cluster(AclOperation.DESCRIBE):
        return PASS
    return helper.deny_request(request, _DENIED, _DENIED.message)


def guard_elect_leaders(request: ElectLeadersRequest, helper: AuthHelper) -> GuardResult:
    """ALTER."""
    if helper.allows_on_cluster(AclOperation.ALTER):
        return PASS
    return helper.deny_request(request, _DENIED, _DENIED.message)


def guard_describe_client_quotas(request: DescribeClientQuotasRequest, helper: AuthHelper) -> GuardResult:
    """DESCRIBE_CONFIGS."""
    if helper.allows_on_cluster(AclOperation.DESCRIBE_CONFIGS):
        return PASS
    return helper.deny_request(request, _DENIED, _DENIED.message)


def guard_describe_scram_credentials(
    request: DescribeUserScramCredentialsRequest, helper: AuthHelper
) -> GuardResult:
    """DESCRIBE. As in Kafka, the error response has one more error for each requested user, without its name."""
    if helper.allows_on_cluster(AclOperation.DESCRIBE):
        return PASS
    return helper.deny_request(request, _DENIED)


def guard_alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, helper: AuthHelper
) -> GuardResult:
    """ALTER; else an error for each user, however often it is named."""
    if helper.allows_on_cluster(AclOperation.ALTER):
        return PASS
    return helper.deny_request(request, _DENIED, _DENIED.message)
