"""ListConfigResources (74): the resources with configs (KIP-714, KIP-1142)."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, String, request, response, since, struct


@request(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesRequest:
    """v0 lists only client metrics resources; v1 resource types, where an empty list requests all types"""

    resource_types: Array[Int8] = since("1+", default=[])


@struct
class ConfigResource:
    """A resource that has, or can have, configs."""

    resource_name: String
    resource_type: Int8 = since("1+", default=16)


@response(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesResponse:
    """v1 has the resource type."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
    config_resources: Array[ConfigResource]
