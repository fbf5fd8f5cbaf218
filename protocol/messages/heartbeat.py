"""Heartbeat (12): a member shows that it is alive. The response tells it to rejoin if there is a rebalance."""

from protocol.apis import ApiKey
from protocol.schema import Int16, Int32, NullableString, String, request, response, since


@request(ApiKey.HEARTBEAT)
class HeartbeatRequest:
    """v3 static members (KIP-345)"""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString = since("3+", default=None)


@response(ApiKey.HEARTBEAT)
class HeartbeatResponse:
    """v1 has the throttle time."""

    throttle_time_ms: Int32 = since("1+", default=0)
    error_code: Int16
