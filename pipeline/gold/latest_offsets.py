"""The committed offsets of each group at the end of the log."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.table import Table

LATEST_OFFSETS: Final = Table.declare(
    "latest_offsets",
    """
    log_partition int
    group string
    topic string
    partition int
    offset bigint
    leader_epoch int
    metadata string
    commit_ts timestamp
    expire_ts timestamp
    topic_id string
    log_offset bigint
    record_ts timestamp
    """,
)


def latest_offsets(last_commits: pa.Table) -> pa.Table:
    """Return the last commit of every group and partition, unless a tombstone removed it.

    In: LAST_COMMITS of the whole history.
    """
    return LATEST_OFFSETS.select(last_commits.filter(pc.invert(last_commits.column("tombstone"))))
