"""DescribeConfigs (32): the configuration of topics and brokers."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class DescribeConfigsResource:
    """A topic or broker. Null keys request all configs."""

    resource_type: Int8
    resource_name: String
    configuration_keys: NullableArray[String] = since(default=None)


@request(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsRequest:
    """v1 synonyms (KIP-226) · v3 documentation (KIP-569)"""

    resources: Array[DescribeConfigsResource]
    include_synonyms: Bool = since("1+", default=False)
    include_documentation: Bool = since("3+", default=False)


@struct
class DescribeConfigsSynonym:
    """A possible source of the value."""

    name: String
    value: NullableString = since(default=None)
    source: Int8


@struct
class DescribeConfigsResourceResult:
    """The configs of one resource."""

    name: String
    value: NullableString = since(default=None)
    read_only: Bool
    config_source: Int8 = since("1+", default=-1)
    is_default: Bool = since("0", default=False)
    is_sensitive: Bool
    synonyms: Array[DescribeConfigsSynonym] = since("1+", default=[])
    config_type: Int8 = since("3+", default=0)
    documentation: NullableString = since("3+", default=None)


@struct
class DescribeConfigsResult:
    """The configs of one resource."""

    error_code: Int16
    error_message: NullableString = since(default=None)
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


@response(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsResponse:
    """v1 source in place of is_default, synonyms · v3 type and documentation"""

    throttle_time_ms: Int32 = since(default=0)
    results: Array[DescribeConfigsResult]
