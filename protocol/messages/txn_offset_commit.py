"""TxnOffsetCommit (28): store offsets that take effect when the transaction is committed."""

from protocol.apis import ApiKey
from protocol.schema import (
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    request,
    response,
    since,
    struct,
)


@struct
class TxnOffsetCommitRequestPartition:
    """The offset of one partition, which is that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since("2+", default=-1)
    committed_metadata: NullableString


@struct
class TxnOffsetCommitRequestTopic:
    """A topic, by name up to v5, by id from v6 on."""

    name: String = since("0-5", default="")
    topic_id: Uuid = since("6+", default=ZERO_UUID)
    partitions: Array[TxnOffsetCommitRequestPartition]


@request(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitRequest:
    """v2 leader epoch · v3 flexible, member and generation (KIP-447) · v4 TRANSACTION_ABORTABLE · v5 the
    coordinator adds the group to the transaction (KIP-890) · v6 topic ids"""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Int32 = since("3+", default=-1)
    member_id: String = since("3+", default="")
    group_instance_id: NullableString = since("3+", default=None)
    topics: Array[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    """The result for the offset of one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class TxnOffsetCommitResponseTopic:
    """A topic with its name or id from the request."""

    name: String = since("0-5", default="")
    topic_id: Uuid = since("6+", default=ZERO_UUID)
    partitions: Array[TxnOffsetCommitResponsePartition]


@response(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitResponse:
    """v6 topic ids. An error of the group or the transaction is repeated on every partition."""

    throttle_time_ms: Int32 = since(default=0)
    topics: Array[TxnOffsetCommitResponseTopic]
