"""SyncGroup (14): the leader sends the assignment, and every member gets its own part."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
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
class SyncGroupRequestAssignment:
    """The assignment of one member, computed by the leader."""

    member_id: String
    assignment: Bytes


@request(ApiKey.SYNC_GROUP)
class SyncGroupRequest:
    """v3 static members (KIP-345) · v5 protocol type and name (KIP-559), mandatory"""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString = since("3+", default=None)
    protocol_type: NullableString = since("5+", default=None)
    protocol_name: NullableString = since("5+", default=None)
    assignments: Array[SyncGroupRequestAssignment]


@response(ApiKey.SYNC_GROUP)
class SyncGroupResponse:
    """v1 throttle time · v5 protocol type and name"""

    throttle_time_ms: Int32 = since("1+", default=0)
    error_code: Int16
    protocol_type: NullableString = since("5+", default=None)
    protocol_name: NullableString = since("5+", default=None)
    assignment: Bytes
