"""The commits of each client: their number, and the share of repeated offsets."""

from typing import Final

import pyarrow as pa

from pipeline.gold.commit_aggregates import COUNTERS, live_commits
from pipeline.gold.fold import Fold
from pipeline.gold.grouping import Grouping, divide, integers, set_columns
from pipeline.table import Table

COMMIT_STATS: Final = Table.declare(
    "commit_stats",
    """
    log_partition int
    group string
    client_id string
    commits bigint
    unmoved_commits bigint
    unmoved_share double
    rewinds bigint
    transactional_commits bigint
    partitions bigint
    first_commit_ts timestamp
    last_commit_ts timestamp
    commits_per_minute double
    first_log_offset bigint
    last_log_offset bigint
    """,
)

_CLIENT: Final = ("log_partition", "group", "client_id")


def _rows(aggregates: pa.Table) -> pa.Table:
    live = live_commits(aggregates)
    times = {"first_commit_ts": live.column("earliest_ts"), "last_commit_ts": live.column("latest_ts")}
    return set_columns(live, **times)


CLIENTS: Final = Fold(
    Table.declare(
        "clients",
        """
        log_partition int
        group string
        client_id string
        topic string
        partition int
        commits bigint
        unmoved_commits bigint
        rewinds bigint
        transactional_commits bigint
        first_commit_ts timestamp
        last_commit_ts timestamp
        first_log_offset bigint
        last_log_offset bigint
        """,
    ),
    keys=(*_CLIENT, "topic", "partition"),
    rows=_rows,
    sums=COUNTERS,
    least=("first_commit_ts", "first_log_offset"),
    greatest=("last_commit_ts", "last_log_offset"),
)
"""By group, client and partition: commits."""


def commit_stats(clients: pa.Table) -> pa.Table:
    """Return for each group and client the commits and the share of them that repeated the previous offset.

    The fold CLIENTS has a row for each partition. Rows without a client contain commits of unknown writers.
    """
    grouping = Grouping(clients, _CLIENT)
    columns = {name: grouping.sum(name) for name in COUNTERS}
    columns |= {name: grouping.min(name) for name in ("first_commit_ts", "first_log_offset")}
    columns |= {name: grouping.max(name) for name in ("last_commit_ts", "last_log_offset")}
    rows = set_columns(grouping.groups, partitions=grouping.count(), **columns)
    elapsed_ms = [integers(rows.column(name)) // 1000 for name in ("last_commit_ts", "first_commit_ts")]
    minutes = pa.chunked_array([(elapsed_ms[0] - elapsed_ms[1]) / 60_000], pa.float64())
    share = divide(rows.column("unmoved_commits"), rows.column("commits"))
    return COMMIT_STATS.select(
        set_columns(rows, unmoved_share=share, commits_per_minute=divide(rows.column("commits"), minutes))
    )
