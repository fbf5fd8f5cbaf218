"""Silver tables: the log's records as rows, once each, in the order of the log.

Append-only. Every table is partitioned by `ingest_batch`; a batch is all there once `ingest_batches` lists it.
"""

from typing import Final

from pipeline.silver.schemas import (
    ASSIGNMENTS,
    COMMITS,
    CONSUMER_MEMBERS,
    GROUP_EPOCHS,
    GROUP_EXPRESSIONS,
    GROUP_GENERATIONS,
    INGEST_BATCHES,
    INGEST_FINDINGS,
    MEMBER_EPOCHS,
    MEMBER_PARTITIONS,
    MEMBERS,
    UNKNOWN_RECORDS,
)
from pipeline.table import Table

__all__ = [
    "ASSIGNMENTS",
    "COMMITS",
    "CONSUMER_MEMBERS",
    "GROUP_EPOCHS",
    "GROUP_EXPRESSIONS",
    "GROUP_GENERATIONS",
    "INGEST_BATCHES",
    "INGEST_FINDINGS",
    "MEMBERS",
    "MEMBER_EPOCHS",
    "MEMBER_PARTITIONS",
    "SILVER",
    "UNKNOWN_RECORDS",
]

SILVER: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        COMMITS,
        GROUP_GENERATIONS,
        MEMBERS,
        ASSIGNMENTS,
        GROUP_EPOCHS,
        CONSUMER_MEMBERS,
        MEMBER_EPOCHS,
        MEMBER_PARTITIONS,
        GROUP_EXPRESSIONS,
        UNKNOWN_RECORDS,
        INGEST_FINDINGS,
        INGEST_BATCHES,
    )
}
"""By name; `ingest_batches` is last, as it is published last."""
