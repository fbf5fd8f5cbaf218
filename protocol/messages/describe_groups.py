"""DescribeGroups (15): state, protocol and members of groups."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)

AUTHORIZED_OPERATIONS_NOT_REQUESTED = -(2**31)


@request(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsRequest:
    """v3 authorized operations (KIP-430)"""

    groups: Array[String]
    include_authorized_operations: Bool = since("3+", default=False)


@struct
class DescribedGroupMember:
    """A member; `client_host` has Java's leading slash."""

    member_id: String
    group_instance_id: NullableString = since("4+", default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup:
    """A group; `protocol_data` is the selected protocol while it is Stable."""

    error_code: Int16
    error_message: NullableString = since("6+", default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: Array[DescribedGroupMember]
    authorized_operations: Int32 = since("3+", default=AUTHORIZED_OPERATIONS_NOT_REQUESTED)


@response(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsResponse:
    """v1 throttle time · v4 instance ids (KIP-345) · v6 error message, GROUP_ID_NOT_FOUND (KIP-1043)"""

    throttle_time_ms: Int32 = since("1+", default=0)
    groups: Array[DescribedGroup]
