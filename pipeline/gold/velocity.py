"""The speed of groups, by minute."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.commit_aggregates import COUNTERS, live_commits
from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold
from pipeline.gold.grouping import divide, set_columns
from pipeline.table import Table

VELOCITY: Final = Table.declare(
    "velocity",
    """
    log_partition int
    group string
    topic string
    partition int
    minute timestamp
    commits bigint
    unmoved_commits bigint
    rewinds bigint
    transactional_commits bigint
    last_offset bigint
    advance bigint
    elapsed_s double
    offsets_per_s double
    first_log_offset bigint
    last_log_offset bigint
    """,
)


MINUTES: Final = Fold(
    Table.declare(
        "minutes",
        """
        log_partition int
        group string
        topic string
        partition int
        minute timestamp
        commits bigint
        unmoved_commits bigint
        rewinds bigint
        transactional_commits bigint
        advance bigint
        elapsed_ms bigint
        first_log_offset bigint
        last_log_offset bigint
        last_offset bigint
        """,
    ),
    keys=(*PARTITION_OF_GROUP, "minute"),
    rows=live_commits,
    sums=(*COUNTERS, "advance", "elapsed_ms"),
    least=("first_log_offset",),
    last={"last_log_offset": ("last_offset",)},
)
"""By group, partition and minute of the commit's time: commits, and the progress of the offset."""


def velocity(minutes: pa.Table) -> pa.Table:
    """Return for each group, partition and minute of the commit's time: commits, and the progress of the offset.

    In: the fold MINUTES. The advance is the sum of the steps from each commit to the next: minutes add up,
    and a rewind within a minute counts as negative.
    """
    advance = minutes.column("advance").fill_null(0)
    elapsed_s = pc.divide(minutes.column("elapsed_ms").cast(pa.float64()), 1000.0)
    rate = divide(advance, elapsed_s)
    return VELOCITY.select(set_columns(minutes, advance=advance, elapsed_s=elapsed_s, offsets_per_s=rate))
