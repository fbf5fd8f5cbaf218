"""DeleteTopics (20): remove topics, by name or by id."""

from protocol.apis import ApiKey
from protocol.schema import (
    ZERO_UUID,
    Array,
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


@struct
class DeleteTopicState:
    """A topic, by name or by id."""

    name: NullableString = since(default=None)
    topic_id: Uuid


@request(ApiKey.DELETE_TOPICS)
class DeleteTopicsRequest:
    """v6 topics by id (KIP-516)"""

    topics: Array[DeleteTopicState] = since("6+", default=[])
    topic_names: Array[String] = since("0-5", default=[])
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    """The result for one topic."""

    name: NullableString = since(nullable="6+", default=None)
    topic_id: Uuid = since("6+", default=ZERO_UUID)
    error_code: Int16
    error_message: NullableString = since("5+", default=None)


@response(ApiKey.DELETE_TOPICS)
class DeleteTopicsResponse:
    """v1 throttle time · v5 error message · v6 topic id"""

    throttle_time_ms: Int32 = since("1+", default=0)
    responses: Array[DeletableTopicResult]
