"""The columns that all kinds of anomalies share."""

from typing import Final

from pipeline.table import Table

ANOMALIES: Final = Table.declare(
    "anomalies",
    """
    kind string
    group string
    topic string
    partition int
    ts timestamp
    until_ts timestamp
    generation int
    member string
    previous_member string
    offset bigint
    previous_offset bigint
    amount bigint
    detail string
    log_partition int
    log_offset bigint
    previous_log_offset bigint
    group_log_offset bigint
    """,
)
"""What `amount` counts, and what the evidence columns point at, differs by kind: see docs/pipeline.md."""
