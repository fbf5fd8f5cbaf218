"""DescribeAcls (29): the ACLs that match a filter, by resource (KIP-140).

Types, operations and permissions are Kafka's numbers: see `coordinator/security/core/acl.py`.
"""

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


@request(ApiKey.DESCRIBE_ACLS)
class DescribeAclsRequest:
    """v1 types of patterns (KIP-290), v2 flexible, v3 user resources. A null field matches everything."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Int8 = since("1+", default=3)
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    """An ACL: it allows or denies an operation to a principal."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    """The ACLs of one resource."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = since("1+", default=3)
    acls: Array[AclDescription]


@response(ApiKey.DESCRIBE_ACLS)
class DescribeAclsResponse:
    """The ACLs by resource, or an error of the whole request."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    resources: Array[DescribeAclsResource]
