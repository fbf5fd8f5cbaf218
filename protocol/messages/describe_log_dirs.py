"""DescribeLogDirs (35): the sizes of the logs on a broker's disks (KIP-113, KIP-827)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class DescribableLogDirTopic:
    """A topic with the partitions to describe."""

    topic: String
    partitions: Array[Int32]


@request(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsRequest:
    """v1 as v0, v2 flexible, v3-v5 as v2. Null topics request all topics."""

    topics: NullableArray[DescribableLogDirTopic]


@struct
class DescribeLogDirsPartition:
    """The log of a partition, its size in bytes."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@struct
class DescribeLogDirsTopic:
    """The logs of a topic in one directory."""

    name: String
    partitions: Array[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    """A directory with its logs; a volume size of -1 is unknown."""

    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Int64 = since("4+", default=-1)
    usable_bytes: Int64 = since("4+", default=-1)
    is_cordoned: Bool = since("5+", default=False)


@response(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsResponse:
    """v1 as v0; v2 flexible; v3 error_code; v4 the sizes of volumes; v5 is_cordoned"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since("3+", default=0)
    results: Array[DescribeLogDirsResult]
