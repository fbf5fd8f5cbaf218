"""ListGroups (16): the groups that this broker coordinates."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, String, request, response, since, struct


@request(ApiKey.LIST_GROUPS)
class ListGroupsRequest:
    """v4 states filter (KIP-518) · v5 types filter (KIP-848)"""

    states_filter: Array[String] = since("4+", default=[])
    types_filter: Array[String] = since("5+", default=[])


@struct
class ListedGroup:
    """A group; its protocol type is "" for a simple group."""

    group_id: String
    protocol_type: String
    group_state: String = since("4+", default="")
    group_type: String = since("5+", default="")


@response(ApiKey.LIST_GROUPS)
class ListGroupsResponse:
    """v1 throttle time · v4 group state · v5 group type"""

    throttle_time_ms: Int32 = since("1+", default=0)
    error_code: Int16
    groups: Array[ListedGroup]
