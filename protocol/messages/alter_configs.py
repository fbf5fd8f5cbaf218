"""AlterConfigs (33): replace all configs of a resource (KIP-133). IncrementalAlterConfigs is the newer API."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
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


@struct
class AlterableConfig:
    """One config and its new value."""

    name: String
    value: NullableString = since(default=None)


@struct
class AlterConfigsResource:
    """A resource and all of its new configs."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


@request(ApiKey.ALTER_CONFIGS)
class AlterConfigsRequest:
    """v2 has the flexible encoding."""

    resources: Array[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16
    error_message: NullableString = since(default=None)
    resource_type: Int8
    resource_name: String


@response(ApiKey.ALTER_CONFIGS)
class AlterConfigsResponse:
    """v1 as v0; v2 flexible"""

    throttle_time_ms: Int32 = since(default=0)
    responses: Array[AlterConfigsResourceResponse]
