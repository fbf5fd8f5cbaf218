"""Key and value schemas of the records of `__consumer_offsets`.

The key types:

    0, 1  a committed offset (0 before Kafka 0.9, with the same fields)
    2     a classic group at the last assignment of its leader
    3, 5  a consumer group (KIP-848): its epoch, its members
    4     topics of a consumer group; Kafka wrote them up to 4.0, groupd only reads them
    6, 7  the target assignment: its epoch, and the partitions of each member
    8     the current assignment of each member
    16    the topics that a regular expression matches

Source: the message definitions of Kafka's group-coordinator module.
"""

from protocol.schema import (
    ZERO_UUID,
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
    data,
    since,
    struct,
    tagged,
)


@data(versions="2")
class GroupMetadataKey:
    """The group id of the record."""

    group: String


@struct
class MemberMetadata:
    """A member. If the rebalance timeout is -1, the session timeout is used instead."""

    member_id: String
    group_instance_id: NullableString = since("3+", default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since("1+", default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@data(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """v1 rebalance timeout · v2 timestamp of the state · v3 instance ids · v4 flexible"""

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Int64 = since("2+", default=-1)
    members: Array[MemberMetadata]


@data(versions="0-1")
class OffsetCommitKey:
    """The group, the topic and the partition of a committed offset."""

    group: String
    topic: String
    partition: Int32


@data(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """v1 commit and expire timestamps (a retention time that the client chose) · v2 no expire timestamp ·
    v3 leader epoch · v4 flexible, topic id in a tag"""

    offset: Int64
    leader_epoch: Int32 = since("3+", default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = since("1", default=-1)
    topic_id: Uuid = tagged(0, "4+", default=ZERO_UUID)


@data(versions="3")
class ConsumerGroupMetadataKey:
    """The group id of the record."""

    group_id: String


@data(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The epoch of a consumer group, and the hash of its topics at the start of the epoch."""

    epoch: Int32
    metadata_hash: Int64 = tagged(0, "0+", default=0)


@data(versions="4")
class ConsumerGroupPartitionMetadataKey:
    """The group id of the record."""

    group_id: String


@struct
class PartitionRacks:
    """The racks of the replicas of a partition."""

    partition: Int32
    racks: Array[String]


@struct
class TopicMetadata:
    """A topic at the time of the record."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[PartitionRacks]


@data(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The subscribed topics of a group, in records from before the metadata hash."""

    topics: Array[TopicMetadata]


@data(versions="5")
class ConsumerGroupMemberMetadataKey:
    """The group id and the member id of the record."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    """A protocol that a member of the classic protocol supports."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    """The JoinGroup fields of a member of the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: Array[ClassicProtocol]


@data(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """The properties of a member."""

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString
    rebalance_timeout_ms: Int32 = since(default=-1)
    server_assignor: NullableString
    classic_member_metadata: ClassicMemberMetadata | None = tagged(
        0, "0+", default=None, nullable="0+", sends_null=True
    )


@data(versions="6")
class ConsumerGroupTargetAssignmentMetadataKey:
    """The group id of the record."""

    group_id: String


@data(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of the last target assignment, and the Unix time of its computation in milliseconds. With 0 it
    may be computed again at once."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, "0+", default=0)


@data(versions="7")
class ConsumerGroupTargetAssignmentMemberKey:
    """The group id and the member id of the record."""

    group_id: String
    member_id: String


@struct
class TargetTopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@data(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: Array[TargetTopicPartitions]


@data(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey:
    """The group id and the member id of the record."""

    group_id: String
    member_id: String


@struct
class CurrentTopicPartitions:
    """Partitions of one topic, each with the member epoch at which it was assigned (KIP-1251)."""

    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: NullableArray[Int32] = tagged(0, "0+", default=None)


@data(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a member."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[CurrentTopicPartitions]
    partitions_pending_revocation: Array[CurrentTopicPartitions]


@data(versions="16")
class ConsumerGroupRegularExpressionKey:
    """A group and a regular expression."""

    group_id: String
    regular_expression: String


@data(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that matched, the version of the topics image, and the Unix time of the resolution in
    milliseconds."""

    topics: Array[String]
    version: Int64
    timestamp: Int64
