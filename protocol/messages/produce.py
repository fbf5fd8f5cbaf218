"""Produce (0): append record batches."""

from protocol.apis import ApiKey
from protocol.current_leader import LeaderIdAndEpoch, NodeEndpoint
from protocol.schema import (
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    Uuid,
    request,
    response,
    since,
    struct,
    tagged,
)


@struct
class PartitionProduceData:
    """The record batch for one partition."""

    index: Int32
    records: Records = since(default=None)


@struct
class TopicProduceData:
    """A topic, by name up to v12, by id from v13 on."""

    name: String = since("0-12", default="")
    topic_id: Uuid = since("13+", default=ZERO_UUID)
    partition_data: Array[PartitionProduceData]


@request(ApiKey.PRODUCE)
class ProduceRequest:
    """v3 record batches v2, transactional id · v9 flexible · v13 topic ids (KIP-516)"""

    transactional_id: NullableString = since("3+", default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    """An invalid record, for which the broker rejected the batch."""

    batch_index: Int32
    batch_index_error_message: NullableString = since(default=None)


@struct
class PartitionProduceResponse:
    """The base offset of an appended batch, or its error."""

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = since("2+", default=-1)
    log_start_offset: Int64 = since("5+", default=-1)
    record_errors: Array[BatchIndexAndErrorMessage] = since("8+", default=[])
    error_message: NullableString = since("8+", default=None)
    current_leader: LeaderIdAndEpoch | None = tagged(0, "10+", default=None)


@struct
class TopicProduceResponse:
    """A topic of the response."""

    name: String = since("0-12", default="")
    topic_id: Uuid = since("13+", default=ZERO_UUID)
    partition_responses: Array[PartitionProduceResponse]


@response(ApiKey.PRODUCE)
class ProduceResponse:
    """v1 throttle time · v2 log append time · v5 log start offset · v8 record errors (KIP-467) · v10
    current leader (KIP-951) · v13 topic ids"""

    responses: Array[TopicProduceResponse]
    throttle_time_ms: Int32 = since("1+", default=0)
    node_endpoints: Array[NodeEndpoint] = tagged(0, "10+", default=[])
