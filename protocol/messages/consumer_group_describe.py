"""ConsumerGroupDescribe (69): consumer groups with their epochs, members and targets (KIP-848)."""

from protocol.apis import ApiKey
from protocol.messages.describe_groups import AUTHORIZED_OPERATIONS_NOT_REQUESTED
from protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    request,
    response,
    since,
    struct,
)

UNKNOWN_MEMBER_TYPE = -1


@request(ApiKey.CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeRequest:
    """The ids of the groups to describe."""

    group_ids: Array[String]
    include_authorized_operations: Bool


@struct
class ConsumerGroupDescribeResponseTopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@struct
class ConsumerGroupDescribeResponseAssignment:
    """The current assignment of a member, or its target."""

    topic_partitions: Array[ConsumerGroupDescribeResponseTopicPartitions]


@struct
class ConsumerGroupDescribeResponseMember:
    """A member; its type is 0 for the classic protocol, 1 for the consumer protocol."""

    member_id: String
    instance_id: NullableString = since(default=None)
    rack_id: NullableString = since(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString = since(default=None)
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: Int8 = since("1+", default=UNKNOWN_MEMBER_TYPE)


@struct
class ConsumerGroupDescribeResponseGroup:
    """A group. With an error it has only its id and the error."""

    error_code: Int16
    error_message: NullableString = since(default=None)
    group_id: String
    group_state: String = since(default="")
    group_epoch: Int32 = since(default=0)
    assignment_epoch: Int32 = since(default=0)
    assignor_name: String = since(default="")
    members: Array[ConsumerGroupDescribeResponseMember] = since(default=[])
    authorized_operations: Int32 = since(default=AUTHORIZED_OPERATIONS_NOT_REQUESTED)


@response(ApiKey.CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeResponse:
    """v1 types of members (KIP-1099)"""

    throttle_time_ms: Int32 = since(default=0)
    groups: Array[ConsumerGroupDescribeResponseGroup]
