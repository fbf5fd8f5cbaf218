"""The measured log ends of the consumed topics."""

from typing import Final

from pipeline.table import Table

LOG_END_OFFSETS: Final = Table.declare(
    "log_end_offsets",
    """
    topic string
    partition int
    at_ts timestamp
    log_start_offset bigint
    log_end_offset bigint
    source string
    """,
)
