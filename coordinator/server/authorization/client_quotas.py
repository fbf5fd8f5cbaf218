"""DescribeClientQuotas: a right on the cluster."""

from typing import Final

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Refused, Verdict
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def guard_describe(request: DescribeClientQuotasRequest, permits: Permits) -> Verdict:
    """DESCRIBE_CONFIGS."""
    if permits.allows_on_cluster(Operation.DESCRIBE_CONFIGS):
        return PASS
    return Refused(
        DescribeClientQuotasResponse(error_code=_DENIED, error_message=_DENIED.message, entries=None)
    )
