"""Metadata (3): brokers, topics and their partitions. It creates missing topics if that is allowed."""

from protocol.apis import ApiKey
from protocol.schema import (
    ZERO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
    request,
    response,
    since,
    struct,
)


@struct
class MetadataRequestTopic:
    """A topic of the request, by name or (v10+) by id."""

    topic_id: Uuid = since("10+", default=ZERO_UUID)
    name: NullableString = since(nullable="10+", default=None)


@request(ApiKey.METADATA)
class MetadataRequest:
    """v1 null requests all topics, an empty list none · v4 without auto-creation · v8 authorized operations
    (KIP-430) · v10 topic ids (KIP-516) · v12 topics by id"""

    topics: NullableArray[MetadataRequestTopic] = since(nullable="1+", default=[])
    allow_auto_topic_creation: Bool = since("4+", default=True)
    include_cluster_authorized_operations: Bool = since("8-10", default=False)
    include_topic_authorized_operations: Bool = since("8+", default=False)


@struct
class MetadataResponseBroker:
    """A live broker with its address for the client."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = since("1+", default=None)


@struct
class MetadataResponsePartition:
    """A partition with its leader and replicas."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since("7+", default=-1)
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    offline_replicas: Array[Int32] = since("5+", default=[])


@struct
class MetadataResponseTopic:
    """A topic with its partitions, or an error."""

    error_code: Int16
    name: NullableString = since(nullable="12+", default=None)
    topic_id: Uuid = since("10+", default=ZERO_UUID)
    is_internal: Bool = since("1+", default=False)
    partitions: Array[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since("8+", default=-2147483648)


@response(ApiKey.METADATA)
class MetadataResponse:
    """v1 controller, racks, internal topics · v2 cluster id · v3 throttle time · v5 offline replicas ·
    v7 leader epoch (KIP-320) · v10 topic ids · v13 top-level error (KIP-1102)"""

    throttle_time_ms: Int32 = since("3+", default=0)
    brokers: Array[MetadataResponseBroker]
    cluster_id: NullableString = since("2+", default=None)
    controller_id: Int32 = since("1+", default=-1)
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = since("8-10", default=-2147483648)
    error_code: Int16 = since("13+", default=0)
