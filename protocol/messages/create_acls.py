"""CreateAcls (30): add ACLs, each with its own result (KIP-140)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class AclCreation:
    """An ACL to create."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = since("1+", default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@request(ApiKey.CREATE_ACLS)
class CreateAclsRequest:
    """v1 types of patterns (KIP-290), v2 flexible, v3 user resources"""

    creations: Array[AclCreation]


@struct
class AclCreationResult:
    """The result for one ACL."""

    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)


@response(ApiKey.CREATE_ACLS)
class CreateAclsResponse:
    """The results in the order of the request."""

    throttle_time_ms: Int32 = since(default=0)
    results: Array[AclCreationResult]
