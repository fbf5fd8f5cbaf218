"""DescribeAcls, CreateAcls, DeleteAcls where nobody authorizes anything. Their messages are imported when somebody
asks.

Source: Kafka's `AclApis`.
"""

from typing import TYPE_CHECKING, Final

from coordinator.net.caller import Caller
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_DISABLED: Final = ErrorCode.SECURITY_DISABLED
_NONE: Final = "No Authorizer is configured."
_NONE_ON_BROKER: Final = "No Authorizer is configured on the broker"


def describe_without_authorizer(request: "DescribeAclsRequest", caller: Caller) -> "DescribeAclsResponse":
    """SECURITY_DISABLED."""
    from protocol.messages.describe_acls import DescribeAclsResponse

    return DescribeAclsResponse(error_code=_DISABLED, error_message=_NONE_ON_BROKER, resources=[])


def create_without_authorizer(request: "CreateAclsRequest", caller: Caller) -> "CreateAclsResponse":
    """SECURITY_DISABLED for each rule."""
    from protocol.messages.create_acls import AclCreationResult, CreateAclsResponse

    results = [AclCreationResult(error_code=_DISABLED, error_message=_NONE) for _ in request.creations]
    return CreateAclsResponse(results=results)


def delete_without_authorizer(request: "DeleteAclsRequest", caller: Caller) -> "DeleteAclsResponse":
    """SECURITY_DISABLED for each filter."""
    from protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse

    results = [
        DeleteAclsFilterResult(error_code=_DISABLED, error_message=_NONE, matching_acls=[])
        for _ in request.filters
    ]
    return DeleteAclsResponse(filter_results=results)
