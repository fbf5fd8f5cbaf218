"""Fetch (1): read record batches. The broker waits up to `max_wait_ms` for `min_bytes`."""

from protocol.apis import ApiKey
from protocol.current_leader import LeaderIdAndEpoch, NodeEndpoint
from protocol.schema import (
    ZERO_UUID,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
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
class ReplicaState:
    """The replica that fetches; consumers send none."""

    replica_id: Int32 = since(default=-1)
    replica_epoch: Int64 = since(default=-1)


@struct
class FetchPartition:
    """One partition with its fetch offset and its maximum bytes."""

    partition: Int32
    current_leader_epoch: Int32 = since("9+", default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since("12+", default=-1)
    log_start_offset: Int64 = since("5+", default=-1)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = tagged(0, "17+", default=ZERO_UUID)
    high_watermark: Int64 = tagged(1, "18+", default=9223372036854775807)


@struct
class FetchTopic:
    """A topic, by name up to v12, by id from v13 on."""

    topic: String = since("4-12", default="")
    topic_id: Uuid = since("13+", default=ZERO_UUID)
    partitions: Array[FetchPartition]


@struct
class ForgottenTopic:
    """Partitions to remove from the fetch session."""

    topic: String = since("7-12", default="")
    topic_id: Uuid = since("13+", default=ZERO_UUID)
    partitions: Array[Int32]


@request(ApiKey.FETCH)
class FetchRequest:
    """v4 isolation level · v5 log start offset · v7 fetch sessions (KIP-227) · v9 leader epoch
    (KIP-320) · v11 rack (KIP-392) · v12 flexible, tags · v13 topic ids (KIP-516) · v15 replica state ·
    v17 replica directory · v18 high watermark (KIP-1166)"""

    cluster_id: NullableString = tagged(0, "12+", default=None)
    replica_id: Int32 = since("4-14", default=-1)
    replica_state: ReplicaState | None = tagged(1, "15+", default=None)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = since(default=2147483647)
    isolation_level: Int8 = since(default=0)
    session_id: Int32 = since("7+", default=0)
    session_epoch: Int32 = since("7+", default=-1)
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic] = since("7+", default=[])
    rack_id: String = since("11+", default="")


@struct
class EpochEndOffset:
    """The end offset of a leader epoch."""

    epoch: Int32 = since(default=-1)
    end_offset: Int64 = since(default=-1)


@struct
class SnapshotId:
    """A snapshot to fetch instead of the log (KRaft only)."""

    end_offset: Int64 = since(default=-1)
    epoch: Int32 = since(default=-1)


@struct
class AbortedTransaction:
    """A transaction whose records a read_committed consumer skips."""

    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    """The response of one partition."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = since(default=-1)
    log_start_offset: Int64 = since("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = tagged(0, "12+", default=None)
    current_leader: LeaderIdAndEpoch | None = tagged(1, "12+", default=None)
    snapshot_id: SnapshotId | None = tagged(2, "12+", default=None)
    aborted_transactions: NullableArray[AbortedTransaction] = since(default=None)
    preferred_read_replica: Int32 = since("11+", default=-1)
    records: Records = since(default=None)


@struct
class FetchableTopicResponse:
    """A topic of the response."""

    topic: String = since("4-12", default="")
    topic_id: Uuid = since("13+", default=ZERO_UUID)
    partitions: Array[PartitionData]


@response(ApiKey.FETCH)
class FetchResponse:
    """v4 aborted transactions · v5 log start offset · v7 session · v11 preferred read replica · v12
    diverging epoch · v13 topic ids · v16 node endpoints (KIP-951)"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since("7+", default=0)
    session_id: Int32 = since("7+", default=0)
    responses: Array[FetchableTopicResponse]
    node_endpoints: Array[NodeEndpoint] = tagged(0, "16+", default=[])
