"""IncrementalAlterConfigs (44): set, delete, append to or subtract from configs (KIP-339)."""

from protocol.apis import ApiKey
from protocol.messages.alter_configs import AlterConfigsResourceResponse
from protocol.schema import Array, Bool, Int8, Int32, NullableString, String, request, response, since, struct


@struct
class AlterableConfig:
    """One change: operation 0 set, 1 delete, 2 append, 3 subtract."""

    name: String
    config_operation: Int8
    value: NullableString = since(default=None)


@struct
class AlterConfigsResource:
    """A resource and the changes to it."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


@request(ApiKey.INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsRequest:
    """v1 has the flexible encoding."""

    resources: Array[AlterConfigsResource]
    validate_only: Bool


@response(ApiKey.INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsResponse:
    """v1 has the flexible encoding."""

    throttle_time_ms: Int32 = since(default=0)
    responses: Array[AlterConfigsResourceResponse]
