"""Every generation of a classic group and every epoch of a consumer group: who came, who left, and what it cost.

The log does not say when a rebalance began. What it does say is measured here: `sync_ms`, from the end of the
joining (the state's timestamp) to the leader's assignment (the record's), and `consumption_pause_ms`, from the
last commit before the record to the first one after it. The pause contains the interval at which the clients
commit anyway, and the whole time without members where the group was empty between the two commits
(`pause_spans_empty`). Generations
between which nobody committed share one pause, known by its `last_commit_before_log_offset`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.cells import of_commits
from pipeline.gold.fold import Fold, of_first, of_last
from pipeline.gold.group_kinds import CLASSIC
from pipeline.gold.group_records import ASSIGNED, EMPTIED, GROUP, group_records, identity
from pipeline.table import Table

REBALANCE_STATS: Final = Table.declare(
    "rebalance_stats",
    """
    log_partition int
    group string
    group_kind string
    generation int
    kind string
    record_ts timestamp
    ended_ts timestamp
    ended_by string
    protocol_type string
    protocol string
    leader string
    n_members int
    joined_members array<string>
    left_members array<string>
    n_stayed int
    static_replacements int
    unseen_generations int
    was_empty boolean
    sync_ms bigint
    consumption_pause_ms bigint
    pause_spans_empty boolean
    converged_ts timestamp
    convergence_ms bigint
    slowest_member string
    last_commit_before_ts timestamp
    first_commit_after_ts timestamp
    log_offset bigint
    last_log_offset bigint
    previous_log_offset bigint
    last_commit_before_log_offset bigint
    first_commit_after_log_offset bigint
    """,
)


def _runs(records: DataFrame, members: DataFrame) -> DataFrame:
    """One row for each run of group records, with the members of its first record as an array."""
    who = members.groupBy("log_partition", "log_offset").agg(
        sf.array_sort(sf.collect_set(identity())).alias("members")
    )
    of_first = (
        "kind", "generation", "record_ts", "state_ts", "protocol_type", "protocol", "leader", "n_members",
    )  # fmt: skip
    runs = records.groupBy(*GROUP, "run").agg(
        *(sf.min_by(name, "log_offset").alias(name) for name in of_first),
        sf.min("log_offset").alias("log_offset"),
        sf.max("log_offset").alias("last_log_offset"),
        sf.max_by("next_ts", "log_offset").alias("ended_ts"),
        sf.max_by("next_kind", "log_offset").alias("ended_by"),
        sf.count("*").alias("n_records"),
    )
    return runs.join(who, ["log_partition", "log_offset"], "left").withColumn(
        "members", sf.coalesce("members", sf.array().cast("array<string>"))
    )


def _rows(cells: DataFrame) -> DataFrame:
    return of_commits(cells).select(
        *GROUP,
        sf.coalesce("group_log_offset", sf.lit(-1)).alias("log_offset"),
        *(sf.col(f"{which}_log_offset").alias(f"{which}_at") for which in ("first", "last")),
        "first_ts",
        "last_ts",
    )


COMMITS_AFTER: Final = Fold(
    "commits_after",
    (*GROUP, "log_offset"),
    _rows,
    lambda: [*of_first("first_at", "first_ts"), *of_last("last_at", "last_ts")],
)
"""The first and the last commit of each group after each of its records, -1 for none."""


def _commits_around(records: DataFrame, commits_after: DataFrame) -> DataFrame:
    """For each group record, the last commit of the group before it and the first after it, and the nearest records
    on both sides (itself included) that say that the group was empty."""
    per_record = commits_after.select(
        *GROUP,
        "log_offset",
        sf.struct(sf.col("first_at").alias("at"), sf.col("first_ts").alias("ts")).alias("first"),
        sf.struct(sf.col("last_at").alias("at"), sf.col("last_ts").alias("ts")).alias("last"),
    )
    empty_at = sf.when(sf.col("kind") != ASSIGNED, sf.col("log_offset")).alias("empty_at")
    epochs = records.select(*GROUP, "log_offset", empty_at).join(
        per_record, [*GROUP, "log_offset"], "full_outer"
    )
    forward = Window.partitionBy(*GROUP).orderBy("log_offset").rowsBetween(Window.unboundedPreceding, -1)
    # Backwards from the end: a frame that reaches forward without bound would be quadratic.
    backward = (
        Window.partitionBy(*GROUP).orderBy(sf.desc("log_offset")).rowsBetween(Window.unboundedPreceding, 0)
    )
    return epochs.select(
        *GROUP,
        "log_offset",
        sf.last("last", ignorenulls=True).over(forward).alias("before"),
        sf.last("first", ignorenulls=True).over(backward).alias("after"),
        sf.max("empty_at").over(forward).alias("empty_before"),
        sf.min("empty_at").over(backward).alias("empty_after"),
    )


def rebalance_stats(
    group_generations: DataFrame, members: DataFrame, commits_after: DataFrame, epochs: DataFrame
) -> DataFrame:
    """One row for each generation or epoch that has a record: with members (`kind` rebalance) or when the last
    one had gone (`kind` emptied).

    In: silver `group_generations` and `members`, the fold COMMITS_AFTER, `consumer_rebalances`.
    """
    records = group_records(group_generations)
    order = Window.partitionBy(*GROUP).orderBy("log_offset")

    def previous(name: str) -> Column:
        return sf.lag(name).over(order)

    linked = (
        _runs(records, members)
        .withColumn("previous_log_offset", previous("last_log_offset"))
        .withColumn("previous_kind", previous("kind"))
        .withColumn("previous_generation", previous("generation"))
        .withColumn("previous_members", previous("members"))
        .where(sf.col("kind").isin(ASSIGNED, EMPTIED))
        .join(_commits_around(records, commits_after), [*GROUP, "log_offset"], "left")
    )
    is_rebalance = sf.col("kind") == ASSIGNED
    # Of a group whose first record seen is not its first ever, nobody knows who was there before.
    before = sf.when(sf.col("previous_kind").isNotNull(), sf.col("previous_members")).when(
        sf.col("generation") <= 1, sf.array().cast("array<string>")
    )
    unseen = sf.col("generation") - sf.col("previous_generation") - 1
    spans_empty = (sf.col("empty_before") > sf.col("before.at")) | (
        sf.col("empty_after") < sf.col("after.at")
    )
    pause_ms = sf.unix_millis("after.ts") - sf.unix_millis("before.ts")
    stats = (
        linked.withColumn("joined_members", sf.array_except("members", before))
        .withColumn("left_members", sf.array_except(before, "members"))
        .withColumn("n_stayed", sf.size(sf.array_intersect("members", before)))
        .withColumn("n_stayed", sf.when(before.isNotNull(), sf.col("n_stayed")))
        .withColumn("static_replacements", sf.when(is_rebalance, sf.col("n_records") - 1).otherwise(0))
        .withColumn("unseen_generations", sf.greatest(unseen, sf.lit(0)))
        .withColumn("was_empty", sf.coalesce(sf.col("previous_kind") != ASSIGNED, sf.col("generation") <= 1))
        .withColumn("sync_ms", sf.unix_millis("record_ts") - sf.unix_millis("state_ts"))
        # NULL, too, where a clock was set back meanwhile.
        .withColumn("sync_ms", sf.when(is_rebalance & (sf.col("sync_ms") >= 0), sf.col("sync_ms")))
        .withColumn("consumption_pause_ms", sf.when(is_rebalance & (pause_ms >= 0), pause_ms))
        .withColumn("pause_spans_empty", sf.coalesce(spans_empty, sf.lit(False)))
        .withColumn(
            "pause_spans_empty",
            sf.when(sf.col("consumption_pause_ms").isNotNull(), sf.col("pause_spans_empty")),
        )
        .withColumn("last_commit_before_ts", sf.col("before.ts"))
        .withColumn("first_commit_after_ts", sf.col("after.ts"))
        .withColumn("last_commit_before_log_offset", sf.col("before.at"))
        .withColumn("first_commit_after_log_offset", sf.col("after.at"))
        .withColumn("kind", sf.when(is_rebalance, "rebalance").otherwise(EMPTIED))
        .withColumn(
            "ended_by", sf.when(sf.col("ended_by") == ASSIGNED, "rebalance").otherwise(sf.col("ended_by"))
        )
    )
    classic = stats.withColumn("group_kind", sf.lit(CLASSIC))
    columns = [name for name in dict(REBALANCE_STATS.columns) if name in classic.columns]
    return REBALANCE_STATS.shape(classic.select(*columns).unionByName(epochs, allowMissingColumns=True))
