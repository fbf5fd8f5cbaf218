"""A classic group as it stood when its leader last handed in an assignment (key type 2)."""

from protocol.kinds import Array, Bytes, Int32, Int64, NullableString, String
from protocol.schema import data, since, struct


@data(versions="2")
class GroupMetadataKey:
    """Which group."""

    group: String


@struct
class MemberMetadata:
    """A member; a rebalance timeout of -1 means that the session timeout serves for it."""

    member_id: String
    group_instance_id: NullableString = since("3+", default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since("1+", default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@data(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """v1 rebalance timeout · v2 timestamp of the state · v3 instance ids · v4 flexible"""

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Int64 = since("2+", default=-1)
    members: Array[MemberMetadata]
