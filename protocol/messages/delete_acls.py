"""DeleteAcls (31): remove the ACLs that match filters (KIP-140)."""

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
class DeleteAclsFilter:
    """A filter like that of DescribeAcls."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Int8 = since("1+", default=3)
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@request(ApiKey.DELETE_ACLS)
class DeleteAclsRequest:
    """v1 types of patterns (KIP-290), v2 flexible, v3 user resources"""

    filters: Array[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    """An ACL that was removed."""

    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = since("1+", default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    """The result for one filter."""

    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    matching_acls: Array[DeleteAclsMatchingAcl]


@response(ApiKey.DELETE_ACLS)
class DeleteAclsResponse:
    """The results in the order of the request."""

    throttle_time_ms: Int32 = since(default=0)
    filter_results: Array[DeleteAclsFilterResult]
