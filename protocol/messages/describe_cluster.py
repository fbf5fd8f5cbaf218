"""DescribeCluster (60): cluster id, controller and brokers."""

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


@request(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterRequest:
    """v1 endpoint type (KIP-919) · v2 fenced brokers (KIP-1073)"""

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = since("1+", default=1)
    include_fenced_brokers: Bool = since("2+", default=False)


@struct
class DescribeClusterBroker:
    """A broker of the cluster."""

    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = since(default=None)
    is_fenced: Bool = since("2+", default=False)


@response(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterResponse:
    """v1 endpoint type · v2 whether a broker is fenced"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
    error_message: NullableString = since(default=None)
    endpoint_type: Int8 = since("1+", default=1)
    cluster_id: String
    controller_id: Int32 = since(default=-1)
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = since(default=-2147483648)
