"""ConsumerGroupHeartbeat (68): the only exchange between a member of a consumer group and its coordinator.

Source: KIP-848.
"""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
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
class ConsumerGroupHeartbeatRequestTopicPartitions:
    """Partitions of one topic that the member owns."""

    topic_id: Uuid
    partitions: Array[Int32]


@request(ApiKey.CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatRequest:
    """v1 regular expressions, member ids that clients generate (KIP-1082).

    A null field, or a rebalance timeout of -1, has not changed since the last heartbeat. A member epoch of 0
    joins, -1 leaves, and -2 leaves temporarily (static members).
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: NullableString = since(default=None)
    rack_id: NullableString = since(default=None)
    rebalance_timeout_ms: Int32 = since(default=-1)
    subscribed_topic_names: NullableArray[String] = since(default=None)
    subscribed_topic_regex: NullableString = since("1+", default=None)
    server_assignor: NullableString = since(default=None)
    topic_partitions: NullableArray[ConsumerGroupHeartbeatRequestTopicPartitions] = since(default=None)


@struct
class ConsumerGroupHeartbeatResponseTopicPartitions:
    """Partitions of one topic that are assigned to the member."""

    topic_id: Uuid
    partitions: Array[Int32]


@struct
class ConsumerGroupHeartbeatResponseAssignment:
    """All partitions that the member may own from now on."""

    topic_partitions: Array[ConsumerGroupHeartbeatResponseTopicPartitions]


@response(ApiKey.CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatResponse:
    """The assignment is null if it has not changed."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    member_id: NullableString = since(default=None)
    member_epoch: Int32 = since(default=0)
    heartbeat_interval_ms: Int32 = since(default=0)
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = since(default=None)
