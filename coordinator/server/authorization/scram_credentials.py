"""DescribeUserScramCredentials, AlterUserScramCredentials: rights on the cluster."""

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Refused, Verdict
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def guard_describe(request: DescribeUserScramCredentialsRequest, permits: Permits) -> Verdict:
    """DESCRIBE. As in Kafka the error is there once more for each user that is asked for, who has no name then."""
    if permits.allows_on_cluster(Operation.DESCRIBE):
        return PASS
    nobody = DescribeUserScramCredentialsResult(
        user="", error_code=_DENIED, error_message=None, credential_infos=[]
    )
    results = [nobody] * len(request.users or [])
    return Refused(
        DescribeUserScramCredentialsResponse(error_code=_DENIED, error_message=None, results=results)
    )


def guard_alter(request: AlterUserScramCredentialsRequest, permits: Permits) -> Verdict:
    """ALTER; else an error for each user, however often it is named."""
    if permits.allows_on_cluster(Operation.ALTER):
        return PASS
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return Refused(
        AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=name, error_code=_DENIED, error_message=_DENIED.message)
                for name in dict.fromkeys(names)
            ]
        )
    )
