"""Find offsets that went backwards. The group consumes the records in between again, or an operator reset it."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.anomalies.anomaly import anomalies
from pipeline.gold.fold import Fold
from pipeline.table import Table

REWINDS: Final = Fold(
    Table.declare(
        "rewinds",
        """
        log_partition int
        group string
        topic string
        partition int
        commit_ts timestamp
        member string
        previous_member string
        offset bigint
        previous_offset bigint
        log_offset bigint
        previous_log_offset bigint
        group_log_offset bigint
        """,
    ),
    keys=(),
    rows=lambda commits: commits.filter(commits.column("is_rewind")),
)
"""The commits below the previous one."""


def offset_rewind(rewinds: pa.Table) -> pa.Table:
    """Return each commit of the fold REWINDS below the previous one, with the presumed writers of both. `amount`:
    the number of offsets in between.
    """
    member, previous = rewinds.column("member"), rewinds.column("previous_member")
    is_unknown, was_unknown = pc.is_null(member), pc.is_null(previous)
    detail = pc.case_when(
        pc.make_struct(
            pc.and_(is_unknown, was_unknown),
            is_unknown,
            was_unknown,
            pc.equal(member, previous).fill_null(False),
        ),
        "neither writer is known",
        "by a client that did not own the partition: a reset, or a consumer outside the group",
        "the previous commit was by a client that did not own the partition",
        "the same member committed a lower offset",
        "another member owned the partition before",
    )
    return anomalies(
        "offset_rewind",
        rewinds,
        ts=rewinds.column("commit_ts"),
        amount=pc.subtract(rewinds.column("previous_offset"), rewinds.column("offset")),
        detail=detail,
    )
