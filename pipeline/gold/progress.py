"""The consumption and the lag of every group in steps of equal length, for plots.

Lag changes with every commit and every record, but a table of all groups at all times would be larger than the log.
Therefore the table contains only changes: for each group, partition and step with an advance of either side, the
difference of the lag. The differences add up over partitions and steps.

The step grows with the period. Builds keep data by the *grain*; this step and all longer ones are its multiples.
"""

from math import gcd
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.commit_aggregates import COUNTERS, begin_of_step, live_commits
from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold
from pipeline.gold.grouping import Flags, Grouping, Integers, are_valid, integers, set_columns
from pipeline.table import Table

PROGRESS: Final = Table.declare(
    "progress",
    """
    log_partition int
    group string
    topic string
    step_ts timestamp
    step_s int
    commits bigint
    unmoved_commits bigint
    rewinds bigint
    transactional_commits bigint
    advance bigint
    offsets_per_s double
    lag bigint
    """,
)

MAX_STEPS: Final = 120
STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
    2592000, 7776000, 31536000,
)  # fmt: skip
_GROUP_TOPIC: Final = ("log_partition", "group", "topic")
_REMOVED: Final = -1
_SIDES: Final = ([*PARTITION_OF_GROUP, "step_ts", "position"], [*PARTITION_OF_GROUP, "step_ts", "end"])


def step_length_s(period_s: float) -> int:
    """Return the shortest round step that divides the period into at most MAX_STEPS."""
    return next((step for step in STEPS_S if step * MAX_STEPS >= period_s), STEPS_S[-1])


def grain_s(step_s: int) -> int:
    """Return the longest time that divides the step, one of STEPS_S, and all longer ones."""
    return gcd(*(step for step in STEPS_S if step >= step_s))


CONSUMED: Final = Fold(
    Table.declare(
        "consumed",
        """
        log_partition int
        group string
        topic string
        step_ts timestamp
        commits bigint
        unmoved_commits bigint
        rewinds bigint
        transactional_commits bigint
        advance bigint
        """,
    ),
    keys=(*_GROUP_TOPIC, "step_ts"),
    rows=live_commits,
    sums=(*COUNTERS, "advance"),
)
"""By group, topic and step: commits, and the advance of the offsets."""


def _positions(aggregates: pa.Table) -> pa.Table:
    position = aggregates.column("last_offset").fill_null(_REMOVED)
    return set_columns(aggregates, step_ts=aggregates.column("record_step_ts"), position=position)


POSITIONS: Final = Fold(
    Table.declare(
        "positions",
        """
        log_partition int
        group string
        topic string
        partition int
        step_ts timestamp
        last_log_offset bigint
        position bigint
        """,
    ),
    keys=(*PARTITION_OF_GROUP, "step_ts"),
    rows=_positions,
    last={"last_log_offset": ("position",)},
)
"""By group, partition and step: the offset at its end; _REMOVED without an offset."""


def lengthen_steps(fold: Fold, rows: pa.Table, step_s: int) -> pa.Table:
    """Convert CONSUMED or POSITIONS to a multiple of its step, `step_s` seconds."""
    return fold.combine([set_columns(rows, step_ts=begin_of_step(rows.column("step_ts"), step_s))])


def _lag_changes(positions: pa.Table, log_end_offsets: pa.Table, step_s: int) -> pa.Table:
    """Return by group, topic and step the increase of the lag, summed over the partitions."""
    rows = _in_order(
        pa.concat_tables(
            [positions.select(_SIDES[0]), _ends_of_steps(positions, log_end_offsets, step_s)],
            promote_options="default",
        )
    )
    is_first = np.append(True, rows.codes[1:] != rows.codes[:-1])[: len(rows.codes)]
    position, is_position = _carry_forward(rows.table.column("position"), is_first)
    end, is_end = _carry_forward(rows.table.column("end"), is_first)
    is_known = is_position & is_end
    behind = np.where(is_known & (position != _REMOVED), np.maximum(end - position, 0), 0)
    before = np.append(0, behind[:-1])[: len(behind)]
    rise = behind - np.where(is_first, 0, before)
    known = set_columns(rows.table, rise=rise).filter(pa.array(is_known))
    grouping = Grouping(known, (*_GROUP_TOPIC, "step_ts"))
    return set_columns(grouping.groups, rise=grouping.sum("rise"))


class _Ordered(NamedTuple):
    table: pa.Table
    codes: Integers
    """Equal for the rows of one partition of a group."""


def _in_order(sides: pa.Table) -> _Ordered:
    """Return one row for each partition of a group and step, in time order."""
    grouping = Grouping(sides, (*PARTITION_OF_GROUP, "step_ts"))
    both = set_columns(grouping.groups, position=grouping.max("position"), end=grouping.max("end"))
    codes = Grouping(both, PARTITION_OF_GROUP).codes
    order = np.lexsort((integers(both.column("step_ts")), codes))
    return _Ordered(both.take(pa.array(order)), codes[order])


def _ends_of_steps(positions: pa.Table, log_end_offsets: pa.Table, step_s: int) -> pa.Table:
    """Return the last measured log end of each step, for each partition of a group."""
    step_ts = begin_of_step(log_end_offsets.column("at_ts"), step_s)
    measured = set_columns(log_end_offsets, step_ts=step_ts)
    grouping = Grouping(measured, ("topic", "partition", "step_ts"))
    last = measured.column("log_end_offset").take(grouping.last("at_ts"))
    ends = set_columns(grouping.groups, end=last)
    partitions = Grouping(positions, PARTITION_OF_GROUP).groups
    return partitions.join(ends, ["topic", "partition"], join_type="inner", use_threads=False).select(
        _SIDES[1]
    )


def _carry_forward(column: pa.ChunkedArray, is_first: Flags) -> tuple[Integers, Flags]:
    """Return the last non-NULL value of this or an earlier row of the same partition, and whether there is one."""
    is_valid = are_valid(column)
    number = np.arange(len(is_first))
    source = np.maximum.accumulate(np.where(is_valid, number, -1))
    start = np.maximum.accumulate(np.where(is_first, number, 0))
    return integers(column)[source], source >= start


def progress(consumed: pa.Table, positions: pa.Table, log_end_offsets: pa.Table, step_s: int) -> pa.Table:
    """Return for each group, topic and step: commits, advance, and the lag at the end of the step.

    The lag is NULL while no log end of the topic is known. Steps without a change have no row; the lag of the
    previous row applies.

    Args:
        consumed: the fold CONSUMED of this step.
        positions: the fold POSITIONS of this step.
        log_end_offsets: measured log ends, at several times for a history of the lag.
        step_s: the step in seconds.
    """
    changes = _lag_changes(positions, log_end_offsets, step_s)
    whole = pa.concat_tables([consumed, changes], promote_options="default")
    grouping = Grouping(whole, (*_GROUP_TOPIC, "step_ts"))
    names = (*COUNTERS, "advance")
    sums = {name: grouping.sum(name).fill_null(0) for name in names}
    rows = set_columns(grouping.groups, rise=grouping.sum("rise"), **sums)
    codes = Grouping(rows, _GROUP_TOPIC).codes
    order = np.lexsort((integers(rows.column("step_ts")), codes))
    rows, codes = rows.take(pa.array(order)), codes[order]
    rate = pc.divide(rows.column("advance").cast(pa.float64()), float(step_s))
    return PROGRESS.select(
        set_columns(
            rows,
            lag=_running_total(rows.column("rise"), codes),
            step_s=np.full(len(rows), step_s, np.int32),
            offsets_per_s=rate,
        )
    )


def _running_total(column: pa.ChunkedArray, codes: Integers) -> pa.Array:
    """Return the sum of all values up to each row with the same code; NULL if all of them are NULL."""
    is_first = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
    values, number = integers(column), np.arange(len(codes))
    totals = np.cumsum(values)
    start = np.maximum.accumulate(np.where(is_first, number, 0))
    seen = np.maximum.accumulate(np.where(are_valid(column), number, -1))
    return pa.array(totals - (totals - values)[start], mask=seen < start)
