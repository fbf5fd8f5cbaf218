"""Find commits for partitions without an owner in the group's generation.

While a group has members, the coordinator rejects commits of non-members. A commit for a partition without an owner
therefore came from a member that did not own it, or through a transaction, which need not name a member. The log
does not show commits of one member for a partition of another.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from pipeline.gold.commit_aggregates import live_commits
from pipeline.gold.fold import Fold
from pipeline.gold.group_records import GROUP, GroupRecords, Row
from pipeline.gold.grouping import are_valid, integers, set_columns
from pipeline.table import Table


def _rows(aggregates: pa.Table) -> pa.Table:
    live = live_commits(aggregates)
    is_unowned = ~are_valid(live.column("n_owners")) & are_valid(live.column("group_log_offset"))
    live = live.filter(pa.array(is_unowned))
    return set_columns(
        live,
        amount=live.column("commits"),
        is_transactional=integers(live.column("transactional_commits")) > 0,
        log_offset=live.column("first_log_offset"),
        offset=live.column("first_offset"),
        ts=live.column("first_ts"),
        until_ts=live.column("latest_ts"),
    )


UNOWNED: Final = Fold(
    Table.declare(
        "unowned",
        """
        log_partition int
        group string
        group_log_offset bigint
        topic string
        partition int
        amount bigint
        is_transactional boolean
        ts timestamp
        until_ts timestamp
        offset bigint
        previous_offset bigint
        previous_member string
        log_offset bigint
        previous_log_offset bigint
        """,
    ),
    keys=(*GROUP, "group_log_offset", "topic", "partition"),
    rows=_rows,
    sums=("amount",),
    first={"log_offset": ("offset", "previous_offset", "previous_log_offset", "previous_member", "ts")},
    greatest=("is_transactional", "until_ts"),
)
"""Commits for partitions without an owner, of groups that have records."""


def outside_ownership(unowned: Iterable[Row], history: GroupRecords) -> list[Row]:
    """Return one row for each group record and partition. `amount`: such commits; the evidence is the first.

    Only records with decodable assignments, the ones of consumers, are judged.

    Args:
        unowned: the rows of a group of the fold UNOWNED.
        history: the group's records.
    """
    records = {row["log_offset"]: row for row in history.classic if _is_readable(row, history)}
    return [
        row
        | {
            "generation": records[row["group_log_offset"]]["generation"],
            "detail": _detail(row, records[row["group_log_offset"]]["n_members"]),
        }
        for row in unowned
        if row["group_log_offset"] in records
    ]


def _is_readable(record: Row, history: GroupRecords) -> bool:
    members = history.members[record["log_offset"]]
    is_of_consumers = record["protocol_type"] == "consumer" and bool(record["n_members"])
    return is_of_consumers and bool(members) and all(row["n_partitions"] is not None for row in members)


def _detail(unowned: Row, n_members: int) -> str:
    if unowned["is_transactional"]:
        return "in a transaction, which need not come from a member"
    return f"by one of {n_members} members, none of which owned it"
