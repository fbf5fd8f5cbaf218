"""The histories of all consumer groups, as `replay` tells them, and the parts of other tables that come from them.

This table is not stored: other gold tables are made from it in the same build.
"""

from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.group_records import GROUP
from pipeline.gold.replay import EPOCH, HOLDING, REVOCATION, STANDING, TOPIC, replay
from pipeline.table import Table, arrow_type

EVENTS: Final = Table.declare(
    "consumer_history",
    """
    log_partition int
    group string
    what string
    kind string
    epoch int
    to_epoch int
    from_us bigint
    to_us bigint
    converged_us bigint
    ended_by string
    log_offset bigint
    last_log_offset bigint
    previous_log_offset bigint
    to_log_offset bigint
    n_members int
    joined array<string>
    left array<string>
    n_stayed int
    unseen int
    was_empty boolean
    slowest_member string
    topic_id string
    topic string
    topics array<string>
    partition int
    n_partitions int
    member string
    member_id string
    group_instance_id string
    client_id string
    client_host string
    """,
)
_SCHEMA: Final = pa.schema([(name, arrow_type(kind)) for name, kind in EVENTS.columns])

_READ: Final = {
    "group_epochs": ("record", "epoch", "tombstone"),
    "consumer_members": (
        "member_id", "group_instance_id", "client_id", "client_host", "tombstone",
        "subscribed_topics as topics", "subscribed_expression as expression",
    ),
    "member_epochs": ("record", "member_id", "epoch", "state", "tombstone"),
    "member_partitions": ("topic_id", "partition", "holding"),
    "group_expressions": ("expression", "topics", "tombstone"),
}  # fmt: skip
"""What `replay` needs of each silver table."""


def consumer_history(silver: dict[str, DataFrame]) -> DataFrame:
    """What became of every consumer group, an event a row. In: the silver tables of consumer groups, by name."""
    parts = [
        silver[name].selectExpr(
            *(f"`{column}`" for column in GROUP),
            "log_offset",
            "unix_micros(record_ts) as record_us",
            f"'{name}' as source",
            *columns,
        )
        for name, columns in _READ.items()
    ]
    records = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    return records.groupBy(*GROUP).applyInArrow(_of_one_group, EVENTS.ddl)


def _of_one_group(records: pa.Table) -> pa.Table:
    rows: list[dict[str, Any]] = records.to_pylist()
    who = {name: rows[0][name] for name in GROUP}
    return pa.Table.from_pylist([who | event for event in replay(rows)], _SCHEMA)


def _time(name: str) -> Column:
    return sf.timestamp_micros(name)


def consumer_rebalances(history: DataFrame) -> DataFrame:
    """Epochs, with the columns of `rebalance_stats` as far as they have them."""
    return history.where(sf.col("what") == EPOCH).select(
        *GROUP,
        sf.lit("consumer").alias("group_kind"),
        sf.col("epoch").alias("generation"),
        "kind",
        _time("from_us").alias("record_ts"),
        _time("to_us").alias("ended_ts"),
        "ended_by",
        sf.lit("consumer").alias("protocol_type"),
        "n_members",
        sf.col("joined").alias("joined_members"),
        sf.col("left").alias("left_members"),
        "n_stayed",
        sf.lit(0).alias("static_replacements"),
        sf.col("unseen").alias("unseen_generations"),
        "was_empty",
        _time("converged_us").alias("converged_ts"),
        ((sf.col("converged_us") - sf.col("from_us")) / 1000).cast("bigint").alias("convergence_ms"),
        "slowest_member",
        "log_offset",
        "last_log_offset",
        "previous_log_offset",
    )


def consumer_ownership(history: DataFrame, latest_offsets: DataFrame, group_epochs: DataFrame) -> DataFrame:
    """Holdings, with the columns of `ownership`. A topic whose name is not known has its id instead.

    In: this history, gold `latest_offsets`, silver `group_epochs`.
    """
    told = group_epochs.select(sf.explode(sf.arrays_zip("topic_ids", "topics")).alias("one"))
    names = (
        latest_offsets.select("topic_id", "topic")
        .union(told.select("one.topic_ids", "one.topics"))
        .union(history.where(sf.col("what") == TOPIC).select("topic_id", "topic"))
        .where(sf.col("topic_id").isNotNull())
        .groupBy("topic_id")
        .agg(sf.min("topic").alias("topic"))
    )
    held = history.where(sf.col("what") == HOLDING).drop("topic").join(names, "topic_id", "left")
    return held.select(
        *GROUP,
        sf.coalesce("topic", "topic_id").alias("topic"),
        *("partition", "member", "member_id", "group_instance_id", "client_id", "client_host"),
        _time("from_us").alias("from_ts"),
        _time("to_us").alias("to_ts"),
        sf.col("epoch").alias("from_generation"),
        sf.col("to_epoch").alias("to_generation"),
        "ended_by",
        sf.col("log_offset").alias("from_log_offset"),
        "to_log_offset",
    )


def revocations(history: DataFrame) -> DataFrame:
    """From when to when members had partitions to give back (`until_ts` NULL: they still have)."""
    return history.where(sf.col("what") == REVOCATION).select(
        *GROUP,
        "member",
        sf.col("epoch").alias("generation"),
        sf.col("n_partitions"),
        _time("from_us").alias("ts"),
        _time("to_us").alias("until_ts"),
        "ended_by",
        sf.col("log_offset"),
        sf.col("to_log_offset"),
    )


def consumer_standing(history: DataFrame) -> DataFrame:
    """The groups that are there at the end: `generation`, and the `topics` subscribed to."""
    standing = history.where(sf.col("what") == STANDING)
    return standing.select(
        *GROUP, sf.col("log_offset").alias("group_log_offset"), sf.col("epoch").alias("generation"), "topics"
    )
