"""The distance of each group from the end of the logs that it consumes."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.grouping import Grouping, set_columns
from pipeline.table import Table

LAG: Final = Table.declare(
    "lag",
    """
    log_partition int
    group string
    topic string
    partition int
    offset bigint
    commit_ts timestamp
    log_start_offset bigint
    log_end_offset bigint
    lag bigint
    lost bigint
    unread_since_ts timestamp
    measured_ts timestamp
    source string
    log_offset bigint
    """,
)

_TOPIC: Final = ("topic", "partition")


def lag(latest_offsets: pa.Table, log_end_offsets: pa.Table) -> pa.Table:
    """Return one row for each row of `latest_offsets`, with the last known end of that partition's log.

    Lag is never negative: a commit beyond the measured end is newer than the measurement. `unread_since_ts`
    is the time of the first measurement beyond the committed offset: since then, at the latest, something has
    been waiting.
    """
    joined = latest_offsets.join(
        _last_ends(log_end_offsets), list(_TOPIC), join_type="left outer", use_threads=False
    )
    zero = pa.scalar(0, pa.int64())
    offset = joined.column("offset")
    behind, gone = (
        pc.max_element_wise(pc.subtract(joined.column(name), offset), zero, skip_nulls=False)
        for name in ("log_end_offset", "log_start_offset")
    )
    rows = set_columns(joined, lag=behind, lost=gone)
    since = _unread_since(rows.filter(pc.greater(behind, 0)), log_end_offsets)
    place = ["log_partition", "log_offset"]
    return LAG.select(rows.join(since, place, join_type="left outer", use_threads=False))


def _last_ends(log_end_offsets: pa.Table) -> pa.Table:
    grouping = Grouping(log_end_offsets, _TOPIC)
    last = log_end_offsets.take(grouping.last("at_ts"))
    names = [*_TOPIC, "log_start_offset", "log_end_offset", "source", "at_ts"]
    return last.select(names).rename_columns([*names[:-1], "measured_ts"])


def _unread_since(behind: pa.Table, log_end_offsets: pa.Table) -> pa.Table:
    """By place of the commit: the first of all measurements that lie beyond its offset."""
    places = behind.select(["log_partition", "log_offset", "offset", *_TOPIC])
    ends = log_end_offsets.select([*_TOPIC, "at_ts", "log_end_offset"])
    measured = places.join(ends, list(_TOPIC), join_type="inner", use_threads=False)
    beyond = measured.filter(pc.greater(measured.column("log_end_offset"), measured.column("offset")))
    grouping = Grouping(beyond, ("log_partition", "log_offset"))
    return set_columns(grouping.groups, unread_since_ts=grouping.min("at_ts"))
