"""LeaveGroup (13): remove members, by member id or by group instance id."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, NullableString, String, request, response, since, struct


@struct
class MemberIdentity:
    """A member to remove."""

    member_id: String
    group_instance_id: NullableString = since(default=None)
    reason: NullableString = since("5+", default=None)


@request(ApiKey.LEAVE_GROUP)
class LeaveGroupRequest:
    """v3 a batch of members (KIP-345) · v5 reasons (KIP-800)"""

    group_id: String
    member_id: String = since("0-2", default="")
    members: Array[MemberIdentity] = since("3+", default=[])


@struct
class MemberResponse:
    """The result for one member of the batch."""

    member_id: String
    group_instance_id: NullableString = since(default=None)
    error_code: Int16


@response(ApiKey.LEAVE_GROUP)
class LeaveGroupResponse:
    """v1 throttle time · v3 a result for each member"""

    throttle_time_ms: Int32 = since("1+", default=0)
    error_code: Int16
    members: Array[MemberResponse] = since("3+", default=[])
