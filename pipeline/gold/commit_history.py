"""Every commit with what came before it and who is likely to have written it.

A commit in the log names a group, a partition and an offset, but no member and no generation. While a group
has members, though, the coordinator takes commits only from them, and only at the current generation: a commit
belongs to the group record that precedes it in the log. The member to which that record assigns the partition
is the *presumed writer*. It is unknown (NULL) when

- the group had no members (an administrator's reset, a consumer that assigns partitions to itself), or no
  group record precedes the commit in what was ingested;
- nobody owned the partition in that generation, or its assignment cannot be read;
- two members owned it.

A member that commits what another one owns cannot be told from that owner.

This table is not stored, nor ever made whole: a build sums it up (`pipeline.gold.cells`) as it computes it, and
that only of the commits that are new since the last build. What it has to know of those before is the last one of
each group and partition: LAST_COMMITS. Writers are looked up later, for the few rows that it comes to.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.fold import of_last
from pipeline.gold.group_records import GROUP, identity
from pipeline.table import Table

PARTITION_OF_GROUP: Final = ("log_partition", "group", "topic", "partition")
_COMMIT: Final = (
    "topic", "partition", "record_ts", "commit_ts", "offset", "tombstone", "topic_id", "producer_id",
)  # fmt: skip
_OF_A_RECORD: Final = (*GROUP, "group_log_offset", "topic", "partition")

LAST_COMMITS: Final = Table.declare(
    "last_commits",
    """
    log_partition int
    group string
    topic string
    partition int
    log_offset bigint
    record_ts timestamp
    commit_ts timestamp
    offset bigint
    tombstone boolean
    topic_id string
    producer_id bigint
    leader_epoch int
    metadata string
    expire_ts timestamp
    group_log_offset bigint
    number bigint
    """,
)
"""The last commit, or tombstone, of every group and partition, as silver and the commit history have it."""


def writers(members: DataFrame, assignments: DataFrame) -> DataFrame:
    """For each group record and partition: `member` (instance id, else member id), `client_id`; both NULL
    where two members were given the partition."""
    who = members.select("log_partition", "log_offset", "member_id", "group_instance_id", "client_id")
    owners = assignments.join(who, ["log_partition", "log_offset", "member_id"]).groupBy(
        *GROUP, sf.col("log_offset").alias("group_log_offset"), "topic", "partition"
    )
    counted = owners.agg(
        sf.min(identity()).alias("member"), sf.min("client_id").alias("client_id"), sf.count("*").alias("n")
    )
    is_single = sf.col("n") == 1
    return counted.select(
        *GROUP,
        "group_log_offset",
        "topic",
        "partition",
        sf.when(is_single, sf.col("member")).alias("member"),
        sf.when(is_single, sf.col("client_id")).alias("client_id"),
        sf.col("n").alias("n_owners"),
    )


def commit_history(commits: DataFrame, group_generations: DataFrame, last_commits: DataFrame) -> DataFrame:
    """Silver `commits`, tombstones included: all, or those of later batches, with the LAST_COMMITS before. Each has

    - `group_log_offset`: the group record that it follows, NULL for none;
    - `number`: which commit of the group to the partition it is, from 1;
    - `previous_…` (offset, log_offset, ts, group_log_offset, producer_id): of the commit before, NULL after a
      tombstone;
    - `is_unmoved`, `is_rewind`, `is_mixed` (one of a transaction after one of none, or the other way round):
      against that one. A topic of another id is another topic.
    """
    after_record = Window.partitionBy(*GROUP).orderBy("log_offset").rowsBetween(Window.unboundedPreceding, 0)
    records = group_generations.select(*GROUP, "log_offset", sf.col("log_offset").alias("mark"))
    placed = (
        commits.select(*GROUP, "log_offset", *_COMMIT)
        .unionByName(records, allowMissingColumns=True)
        .withColumn("group_log_offset", sf.max("mark").over(after_record))
        .where(sf.col("topic").isNotNull())
        .drop("mark")
    )
    with_last = placed.withColumns({"number": sf.lit(1), "is_new": sf.lit(True)}).unionByName(
        last_commits.drop("leader_epoch", "metadata", "expire_ts").withColumn("is_new", sf.lit(False))
    )

    before = Window.partitionBy(*PARTITION_OF_GROUP).orderBy("log_offset")
    topic_before = sf.lag("topic_id").over(before)
    is_same_topic = sf.coalesce(topic_before == sf.col("topic_id"), sf.lit(True))
    is_continued = ~sf.lag("tombstone", 1, True).over(before) & ~sf.col("tombstone") & is_same_topic
    previous = {
        "previous_offset": sf.lag("offset").over(before),
        "previous_log_offset": sf.lag("log_offset").over(before),
        "previous_ts": sf.lag("commit_ts").over(before),
        "previous_group_log_offset": sf.lag("group_log_offset").over(before),
        "previous_producer_id": sf.lag("producer_id").over(before),
    }
    so_far = before.rowsBetween(Window.unboundedPreceding, 0)
    linked = with_last.withColumns(
        {"number": sf.sum("number").over(so_far), "is_continued": is_continued, **previous}
    ).where("is_new")
    offset, offset_before = sf.col("offset"), sf.col("previous_offset")
    is_plain, was_plain = sf.col("producer_id").isNull(), sf.col("previous_producer_id").isNull()
    return (
        linked.withColumns({name: sf.when(sf.col("is_continued"), sf.col(name)) for name in previous})
        .withColumns(
            {
                "is_unmoved": sf.coalesce(offset == offset_before, sf.lit(False)),
                "is_rewind": sf.coalesce(offset < offset_before, sf.lit(False)),
                "is_mixed": sf.col("previous_log_offset").isNotNull() & (is_plain != was_plain),
            }
        )
        .drop("is_continued", "is_new")
    )


def with_writers(frame: DataFrame, writers: DataFrame) -> DataFrame:
    """Rows of commits with `member`, `client_id` and `n_owners` (NULL for none) of their presumed writer, and with
    `previous_member`, that of the commit before.

    In: rows with the columns of the history that say after which group record they are; `writers`.
    """
    members = writers.select(
        *GROUP,
        sf.col("group_log_offset").alias("previous_group_log_offset"),
        "topic",
        "partition",
        sf.col("member").alias("previous_member"),
    )
    key_before = [*GROUP, "previous_group_log_offset", "topic", "partition"]
    return frame.join(writers, list(_OF_A_RECORD), "left").join(members, key_before, "left")


def last_commits(commits: DataFrame, cells: DataFrame, so_far: DataFrame) -> DataFrame:
    """LAST_COMMITS after some more history. In: its silver `commits`, its cells, LAST_COMMITS before it.

    A semi join fetches the rows: aggregating whole ones would make Spark sort. It is broadcast, as Spark, which
    cannot know how few they are, would sort for the join too.
    """
    last = cells.groupBy(*PARTITION_OF_GROUP).agg(
        *of_last("last_log_offset", "group_log_offset", "last_number")
    )
    places = last.select(
        "log_partition",
        sf.col("last_log_offset").alias("log_offset"),
        "group_log_offset",
        sf.col("last_number").alias("number"),
    )
    new = LAST_COMMITS.shape(commits.join(sf.broadcast(places), ["log_partition", "log_offset"]))
    kept = so_far.join(sf.broadcast(new.select(*PARTITION_OF_GROUP)), list(PARTITION_OF_GROUP), "left_anti")
    return kept.unionByName(new)
