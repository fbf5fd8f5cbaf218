"""DeleteGroups (42): remove empty groups with all their offsets."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, NullableString, String, request, response, since, struct


@request(ApiKey.DELETE_GROUPS)
class DeleteGroupsRequest:
    """v2 has the flexible encoding."""

    groups_names: Array[String]


@struct
class DeletableGroupResult:
    """The result for one group."""

    group_id: String
    error_code: Int16
    error_message: NullableString = since("3+", default=None)


@response(ApiKey.DELETE_GROUPS)
class DeleteGroupsResponse:
    """v3 error message for each group"""

    throttle_time_ms: Int32 = since(default=0)
    results: Array[DeletableGroupResult]
