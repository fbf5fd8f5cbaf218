"""Every commit with the commit before it and its presumed writer.

A commit in the log names a group, a partition and an offset, but no member and no generation. While a group has
members, the coordinator accepts commits only from them, and only at the current generation: a commit belongs to the
group record that precedes it in the log. The member to which that record assigns the partition is the *presumed
writer*. It is unknown (NULL) when

- the group had no members (a reset by an administrator, a consumer with its own assignment), or no group record
  precedes the commit in the ingested log;
- no member of that generation owned the partition, or its assignment is unreadable;
- two members owned it.

The log cannot show that a member commits for a partition of another one.

This table is not stored. A build aggregates it (`pipeline.gold.commit_aggregates`) chunk by chunk. Of all earlier
commits it needs only the last one of each group and partition: LAST_COMMITS. Writers are looked up for the
aggregates.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.group_records import GROUP
from pipeline.gold.grouping import Grouping, are_valid, flags, integers, set_columns
from pipeline.silver.schemas import COMMITS
from pipeline.table import Table

PARTITION_OF_GROUP: Final = ("log_partition", "group", "topic", "partition")
COMMIT_COLUMNS: Final = tuple(
    name for name, _ in COMMITS.columns if name not in ("value_version", "ingest_batch")
)
"""The columns of silver `commits` that gold needs."""

_OF_A_RECORD: Final = (*GROUP, "group_log_offset", "topic", "partition")
_PREVIOUS: Final = {
    "previous_offset": "offset",
    "previous_log_offset": "log_offset",
    "previous_ts": "commit_ts",
    "previous_group_log_offset": "group_log_offset",
}
_OF_THE_COMMIT_BEFORE: Final = [*_PREVIOUS.values(), "topic_id", "tombstone", "producer_id"]

LAST_COMMITS: Final = Table.declare(
    "last_commits",
    """
    log_partition int
    group string
    topic string
    partition int
    log_offset bigint
    record_ts timestamp
    commit_ts timestamp
    offset bigint
    tombstone boolean
    topic_id string
    producer_id bigint
    leader_epoch int
    metadata string
    expire_ts timestamp
    group_log_offset bigint
    number bigint
    """,
)
"""The last commit, or tombstone, of every group and partition, as silver and the commit history have it."""


_WRITERS: Final = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group", pa.string()),
        ("group_log_offset", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("member", pa.string()),
        ("client_id", pa.string()),
        ("n_owners", pa.int64()),
    ]
)

Row = dict[str, Any]


def writers(members: Iterable[Row], assignments: Iterable[Row]) -> pa.Table:
    """Return the owners of each partition after each group record.

    `member` (instance id, else member id) and `client_id` are NULL where the record gives a partition to two
    members. In: rows of the silver tables.
    """
    member_rows = {(row["log_partition"], row["log_offset"], row["member_id"]): row for row in members}
    owners: dict[tuple[Any, ...], list[Row]] = {}
    for row in assignments:
        member = member_rows.get((row["log_partition"], row["log_offset"], row["member_id"]))
        if member is not None:
            place = (row["log_partition"], row["group"], row["log_offset"], row["topic"], row["partition"])
            owners.setdefault(place, []).append(member)
    rows = []
    for place, found in owners.items():
        only = found[0] if len(found) == 1 else None
        name = None if only is None else only["group_instance_id"] or only["member_id"]
        rows.append((*place, name, None if only is None else only["client_id"], len(found)))
    columns = zip(*rows, strict=True) if rows else [()] * len(_WRITERS)
    return pa.table([pa.array(list(column)) for column in columns], names=_WRITERS.names).cast(_WRITERS)


def link_commits(new: pa.Table, records: pa.Table, last_commits: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Link each commit to the one before it.

    In: COMMIT_COLUMNS of some commits in log order, with tombstones; `log_partition`, `group`, `log_offset` of all
    records of these groups; LAST_COMMITS before the first commit. Out: the commits, by partition and in log
    order, and LAST_COMMITS after them. Each commit has

    - `group_log_offset`: the offset of the group record before it, NULL without one;
    - `number`: its number among the commits of the group to the partition, from 1;
    - `previous_...` (offset, log_offset, ts, group_log_offset): of the commit before, NULL after a tombstone;
    - `is_unmoved`, `is_rewind`, `is_mixed` (of a transaction after a plain one, or the reverse): compared with that
      commit. A topic with another id is another topic.
    """
    placed = set_columns(new, group_log_offset=_preceding_records(new, records))
    whole = pa.concat_tables(
        [last_commits, LAST_COMMITS.select(set_columns(placed, number=pa.nulls(len(new), pa.int64())))]
    )
    is_new = np.arange(len(whole)) >= len(last_commits)
    grouping = Grouping(whole, PARTITION_OF_GROUP)
    ordered, is_new = whole.take(pa.array(grouping.order)), is_new[grouping.order]
    codes = grouping.codes[grouping.order]
    is_first = np.ones(len(codes), bool)
    is_first[1:] = codes[1:] != codes[:-1]
    before = ordered.select(_OF_THE_COMMIT_BEFORE).take(pa.array(np.arange(len(codes)) - 1, mask=is_first))
    ordered = set_columns(ordered, number=_numbers(integers(ordered.column("number"), 1), is_first))
    is_last = np.append(is_first[1:], True)[: len(codes)]
    commits = set_columns(ordered, **_links(ordered, before)).filter(pa.array(is_new))
    return commits, ordered.filter(pa.array(is_last))


def _preceding_records(commits: pa.Table, records: pa.Table) -> pa.Array:
    keys = [*GROUP, "log_offset"]
    whole = pa.concat_tables([records.select(keys), commits.select(keys)])
    codes, offsets = Grouping(whole, GROUP).codes, integers(whole.column("log_offset"))
    order = np.lexsort((offsets, codes))
    is_record = order < len(records)
    place = np.maximum.accumulate(np.where(is_record, np.arange(len(order)), -1))
    found = np.full(len(order), -1, np.int64)
    found[order] = np.where((place >= 0) & (codes[order[place]] == codes[order]), order[place], -1)
    mine = found[len(records) :]
    return pa.array(offsets[mine], mask=mine < 0)


def _numbers(numbers: np.ndarray[Any, Any], is_first: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    totals = np.cumsum(numbers)
    before = np.where(is_first, totals - numbers, 0)
    return np.asarray(totals - np.maximum.accumulate(before), np.int64)


def _links(commits: pa.Table, before: pa.Table) -> dict[str, Any]:
    topic_ids, ids_before = commits.column("topic_id"), before.column("topic_id")
    is_same_topic = pc.equal(topic_ids, ids_before).fill_null(True)
    is_live = are_valid(before.column("tombstone")) & ~flags(before.column("tombstone"))
    is_continued = pa.array(is_live & ~flags(commits.column("tombstone")) & flags(is_same_topic))
    none = pa.scalar(None)
    links = {
        name: pc.if_else(is_continued, before.column(column), none.cast(before.column(column).type))
        for name, column in _PREVIOUS.items()
    }
    offset, offset_before = commits.column("offset"), links["previous_offset"]
    is_plain, was_plain = (~are_valid(some.column("producer_id")) for some in (commits, before))
    return links | {
        "is_unmoved": pc.equal(offset, offset_before).fill_null(False),
        "is_rewind": pc.less(offset, offset_before).fill_null(False),
        "is_mixed": flags(is_continued) & (is_plain != was_plain),
    }


def with_writers(commits: pa.Table, writers: pa.Table) -> pa.Table:
    """Add `member`, `client_id`, `n_owners` (NULL for none) of the presumed writer, and `previous_member`.

    In: rows that have the columns of linked commits which name group records; `writers`.
    """
    previous = writers.select([*_OF_A_RECORD, "member"]).rename_columns(
        [*GROUP, "previous_group_log_offset", "topic", "partition", "previous_member"]
    )
    keys_before = [*GROUP, "previous_group_log_offset", "topic", "partition"]
    found = commits.join(writers, list(_OF_A_RECORD), join_type="left outer", use_threads=False)
    return found.join(previous, keys_before, join_type="left outer", use_threads=False)
