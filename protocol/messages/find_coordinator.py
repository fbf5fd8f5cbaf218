"""FindCoordinator (10): find the broker that coordinates a group or a transaction."""

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


@request(ApiKey.FIND_COORDINATOR)
class FindCoordinatorRequest:
    """v1 key type · v4 several keys (KIP-699) · v6 share groups (KIP-932)"""

    key: String = since("0-3", default="")
    key_type: Int8 = since("1+", default=0)
    coordinator_keys: Array[String] = since("4+", default=[])


@struct
class Coordinator:
    """The coordinator of one key."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: NullableString = since(default=None)


@response(ApiKey.FIND_COORDINATOR)
class FindCoordinatorResponse:
    """v1 throttle time, error message · v4 a result for each key"""

    throttle_time_ms: Int32 = since("1+", default=0)
    error_code: Int16 = since("0-3", default=0)
    error_message: NullableString = since("1-3", default=None)
    node_id: Int32 = since("0-3", default=0)
    host: String = since("0-3", default="")
    port: Int32 = since("0-3", default=0)
    coordinators: Array[Coordinator] = since("4+", default=[])
