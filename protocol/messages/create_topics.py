"""CreateTopics (19): new topics, with partition counts, replicas and configs."""

from protocol.apis import ApiKey
from protocol.schema import (
    ZERO_UUID,
    Array,
    Bool,
    Int8,
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
    tagged,
)


@struct
class CreatableReplicaAssignment:
    """The brokers that hold one partition."""

    partition_index: Int32
    broker_ids: Array[Int32]


@struct
class CreatableTopicConfig:
    """A config of the new topic."""

    name: String
    value: NullableString = since(default=None)


@struct
class CreatableTopic:
    """A topic to create; -1 stands for the broker's default."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Array[CreatableReplicaAssignment]
    configs: Array[CreatableTopicConfig]


@request(ApiKey.CREATE_TOPICS)
class CreateTopicsRequest:
    """v1 validate_only · v4 partitions and replication factor may be -1 (KIP-464) · v5 flexible"""

    topics: Array[CreatableTopic]
    timeout_ms: Int32 = since(default=60000)
    validate_only: Bool = since("1+", default=False)


@struct
class CreatableTopicConfigs:
    """A config that the new topic has, with its source."""

    name: String
    value: NullableString = since(default=None)
    read_only: Bool
    config_source: Int8 = since(default=-1)
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    """The result for one topic."""

    name: String
    topic_id: Uuid = since("7+", default=ZERO_UUID)
    error_code: Int16
    error_message: NullableString = since("1+", default=None)
    topic_config_error_code: Int16 = tagged(0, "5+", default=0)
    num_partitions: Int32 = since("5+", default=-1)
    replication_factor: Int16 = since("5+", default=-1)
    configs: NullableArray[CreatableTopicConfigs] = since("5+", default=None)


@response(ApiKey.CREATE_TOPICS)
class CreateTopicsResponse:
    """v1 error message · v2 throttle time · v5 partitions, configs (KIP-525) · v7 topic id"""

    throttle_time_ms: Int32 = since("2+", default=0)
    topics: Array[CreatableTopicResult]
