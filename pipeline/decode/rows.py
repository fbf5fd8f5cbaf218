"""The rows of the source: one per record of any kind, in one schema.

`kind` is the kind of a row and determines its columns:

    commit   an offset commit or its tombstone
    group    a classic group's record or its tombstone
    consumer_group  a record of a consumer group (KIP-848) or its tombstone; `key_type` says which
    unknown  any other record: another key type, or a malformed one; no record is dropped
    finding  not a record but a finding in the log; `log_offset` is the first affected offset

Times are microseconds since 1970; NULL for Kafka's -1 and for times after the year 9999.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

COMMIT: Final = "commit"
GROUP: Final = "group"
CONSUMER_GROUP: Final = "consumer_group"
UNKNOWN: Final = "unknown"
FINDING: Final = "finding"
KINDS: Final = (COMMIT, GROUP, CONSUMER_GROUP, UNKNOWN, FINDING)

MAX_TIME_MS: Final = 253_402_300_799_999
TIME: Final = pa.timestamp("us", tz="UTC")


def _list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


ASSIGNED: Final = pa.struct([("topic", pa.string()), ("partition", pa.int32())])
MEMBER: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("subscribed_topics", _list(pa.string())),
        ("assigned", _list(ASSIGNED)),
    ]
)
HELD: Final = pa.struct(
    [
        ("holding", pa.string()),  # target, assigned or pending_revocation
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("since_epoch", pa.int32()),
    ]
)
CONSUMER: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("epoch", pa.int32()),
        ("previous_epoch", pa.int32()),
        ("state", pa.string()),
        ("metadata_hash", pa.int64()),
        ("done_ts", TIME),
        ("group_instance_id", pa.string()),
        ("rack_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("assignor", pa.string()),
        ("is_classic", pa.bool_()),
        ("expression", pa.string()),
        ("topics", _list(pa.string())),
        ("topic_ids", _list(pa.string())),
        ("topics_version", pa.int64()),
        ("partitions", _list(HELD)),
    ]
)
"""The fields of consumer group records. Together they are one column, which commits leave NULL."""

SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("record_ts", TIME),
        ("producer_id", pa.int64()),
        ("group", pa.string()),
        ("tombstone", pa.bool_()),
        ("value_version", pa.int32()),
        # commit
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_ts", TIME),
        ("expire_ts", TIME),
        ("topic_id", pa.string()),
        # group
        ("generation", pa.int32()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("state_ts", TIME),
        ("members", _list(MEMBER)),
        # consumer group
        ("consumer", CONSUMER),
        # consumer group and unknown
        ("key_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        # finding
        ("finding", pa.string()),
        ("last_offset", pa.int64()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("detail", pa.string()),
    ]
)

Row = dict[str, Any]


class Finding(NamedTuple):
    """A problem in the log that readers of the tables should know."""

    log_partition: int
    kind: str
    """torn_tail, damage, gap, lost_history, open_transaction or aborted_transaction."""
    first_offset: int
    last_offset: int | None
    path: str
    position: int | None
    detail: str

    def row(self) -> Row:
        """Return the finding as a row of the source."""
        return {
            "kind": FINDING,
            "log_partition": self.log_partition,
            "log_offset": self.first_offset,
            "finding": self.kind,
            "last_offset": self.last_offset,
            "path": self.path,
            "position": self.position,
            "detail": self.detail,
        }


def time_us(time_ms: int) -> int | None:
    """Convert Kafka's milliseconds to microseconds; None for no time."""
    return time_ms * 1000 if 0 <= time_ms <= MAX_TIME_MS else None


def record_batch(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Convert rows to Arrow. Rows are dictionaries of the non-NULL columns, with times in microseconds; `schema`
    selects the columns.
    """
    present = {name for row in rows for name in row}
    arrays = [
        pa.array([row.get(field.name) for row in rows], field.type)
        if field.name in present
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def record_batches(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> list[pa.RecordBatch]:
    """Convert rows to Arrow, with commits and other records in separate batches."""
    commits = [row for row in rows if row["kind"] == COMMIT]
    others = [row for row in rows if row["kind"] != COMMIT]
    return [record_batch(some, schema) for some in (commits, others) if some]
