"""JoinGroup (11): join or rejoin a group. The coordinator answers when the join phase of a rebalance ends."""

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


@struct
class JoinGroupRequestProtocol:
    """An assignor that the member supports. A member lists them in order of preference."""

    name: String
    metadata: Bytes


@request(ApiKey.JOIN_GROUP)
class JoinGroupRequest:
    """v1 rebalance timeout · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 static members (KIP-345) · v8 reason
    (KIP-800)"""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since("1+", default=-1)
    member_id: String
    group_instance_id: NullableString = since("5+", default=None)
    protocol_type: String
    protocols: Array[JoinGroupRequestProtocol]
    reason: NullableString = since("8+", default=None)


@struct
class JoinGroupResponseMember:
    """A member for the leader, with its metadata for the selected protocol."""

    member_id: String
    group_instance_id: NullableString = since("5+", default=None)
    metadata: Bytes


@response(ApiKey.JOIN_GROUP)
class JoinGroupResponse:
    """v2 throttle time · v7 protocol type, protocol name nullable (KIP-559) · v9 skip_assignment (KIP-814)"""

    throttle_time_ms: Int32 = since("2+", default=0)
    error_code: Int16
    generation_id: Int32 = since(default=-1)
    protocol_type: NullableString = since("7+", default=None)
    protocol_name: NullableString = since(nullable="7+", default=None)
    leader: String
    skip_assignment: Bool = since("9+", default=False)
    member_id: String
    members: Array[JoinGroupResponseMember] = since(default=[])
