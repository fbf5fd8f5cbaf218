"""Find groups that commit offsets of one partition both inside and outside of transactions.

The order of the records in the log decides which commit counts. The end of a transaction replaces a plain commit
made before it; a plain commit after it stays. groupd also logs this once for each group. Aborted transactions do
not count, as in all these tables.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.anomalies.anomaly import anomalies
from pipeline.gold.fold import Fold
from pipeline.gold.group_records import GROUP
from pipeline.gold.grouping import set_columns
from pipeline.table import Table


def _rows(commits: pa.Table) -> pa.Table:
    mixed = commits.filter(commits.column("is_mixed"))
    return set_columns(
        mixed,
        amount=np.ones(len(mixed), np.int64),
        last_log_offset=mixed.column("log_offset"),
        ts=mixed.column("commit_ts"),
        until_ts=mixed.column("commit_ts"),
    )


MIXTURES: Final = Fold(
    Table.declare(
        "mixtures",
        """
        log_partition int
        group string
        topic string
        partition int
        ts timestamp
        until_ts timestamp
        member string
        previous_member string
        offset bigint
        previous_offset bigint
        amount bigint
        log_offset bigint
        previous_log_offset bigint
        group_log_offset bigint
        last_log_offset bigint
        producer_id bigint
        """,
    ),
    keys=GROUP,
    rows=_rows,
    sums=("amount",),
    first={
        "log_offset": (
            "topic", "partition", "ts", "member", "previous_member", "offset", "previous_offset",
            "previous_log_offset", "group_log_offset", "producer_id",
        )
    },
    last={"last_log_offset": ("until_ts",)},
)  # fmt: skip
"""By group: the commits of another kind than the previous one, and the first of them."""


def mixed_commits(mixtures: pa.Table) -> pa.Table:
    """Return one row for each group of the fold MIXTURES. `amount`: commits of another kind than the previous one;
    the evidence is the first.
    """
    detail = pc.if_else(
        pc.is_null(mixtures.column("producer_id")),
        "the first is a plain commit after a transactional one",
        "the first is a transactional commit after a plain one",
    )
    return anomalies("mixed_commits", mixtures, detail=detail)
