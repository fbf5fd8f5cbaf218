"""Each kind of anomaly, and what looks like it but is none."""

from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.expiring_offsets import expiring_offsets
from pipeline.gold.anomalies.flapping_group import flapping_group
from pipeline.gold.anomalies.offset_rewind import REWINDS, offset_rewind
from pipeline.gold.anomalies.outside_ownership import UNOWNED, outside_ownership
from pipeline.gold.anomalies.rebalance_storm import rebalance_storm
from pipeline.gold.anomalies.stuck_partition import HABITS, stuck_partition
from pipeline.gold.lag import lag
from pipeline.gold.log_end_offsets import LOG_END_OFFSETS
from tests.pipeline.gold.silver import cells, history, latest_offsets, ownership, rebalance_stats
from tests.pipeline.hand_made import HandMade, at
from tests.pipeline.rows import one, rows

DAY_S = 86400


def moment(time: datetime) -> Column:
    return sf.timestamp_millis(sf.lit(int(time.timestamp() * 1000)))


def test_a_rewind_names_both_writers_and_both_commits(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 5, 1)
    before = made.commit("g", "t", 0, 90, 2)
    made.generation("g", 2, {"b1": [("t", 0)]}, 3)
    after = made.commit("g", "t", 0, 60, 4)
    made.commit("g", "t", 0, 61, 5)
    row = one(offset_rewind(REWINDS.of(history(made))))
    assert (row["previous_member"], row["member"]) == ("a1", "b1")
    assert (row["previous_log_offset"], row["log_offset"]) == (before, after)
    assert (row["previous_offset"], row["offset"], row["amount"]) == (90, 60, 30)
    assert row["ts"] == at(4)


def test_a_reset_of_an_empty_group_has_no_writer(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 90, 2)
    made.emptied("g", 2, 3)
    made.commit("g", "t", 0, 0, 4)
    row = one(offset_rewind(REWINDS.of(history(made))))
    assert (row["previous_member"], row["member"]) == ("a1", None)


def test_commits_for_partitions_of_nobody_are_counted_by_generation(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.commit("g", "u", 0, 1, 0)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 5, 1)
    first = made.commit("g", "u", 0, 2, 2)
    made.commit("g", "u", 0, 3, 3)
    record = made.generation("g", 2, {"a1": [("u", 0)]}, 4)
    made.commit("g", "u", 0, 4, 5)
    made.emptied("g", 3, 6)
    made.commit("g", "u", 0, 5, 7)
    tables = made.table("group_generations"), made.table("members")
    row = one(outside_ownership(UNOWNED.of(cells(made)), *tables))
    assert (row["topic"], row["partition"], row["amount"], row["log_offset"]) == ("u", 0, 2, first)
    assert (row["generation"], row["group_log_offset"]) == (1, 1)
    assert (row["ts"], row["until_ts"]) == (at(2), at(3))
    assert record != 1


def test_assignments_that_nobody_can_read_accuse_nobody(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("connect", 1, {"a1": []}, 0, protocol_type="connect")
    made.commit("connect", "t", 0, 1, 1)
    made.generation("odd", 1, {"a1": []}, 0, is_readable=False)
    made.commit("odd", "t", 0, 1, 1)
    tables = made.table("group_generations"), made.table("members")
    assert rows(outside_ownership(UNOWNED.of(cells(made)), *tables), "group") == []


def stuck(made: HandMade, seconds: float, ends: list[tuple[str, int, int]], spark: SparkSession) -> DataFrame:
    measured = [(topic, partition, at(seconds), 0, end, "file") for topic, partition, end in ends]
    behind = lag(latest_offsets(made), spark.createDataFrame(measured, LOG_END_OFFSETS.ddl))
    return stuck_partition(HABITS.of(cells(made)), behind, ownership(made), moment(at(seconds)))


def test_an_offset_that_stays_while_the_log_goes_on_is_stalled(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0), ("t", 1), ("t", 2)]}, 0)
    made.commit("g", "t", 0, 3, 1)
    moved = made.commit("g", "t", 0, 4, 2)
    for seconds in range(3, 12):
        made.commit("g", "t", 0, 4, seconds)
        made.commit("g", "t", 1, 4, seconds)
        made.commit("g", "t", 2, seconds, seconds)
    row = one(stuck(made, 12, [("t", 0, 9), ("t", 1, 9), ("t", 2, 99)], spark))
    assert (row["partition"], row["amount"], row["member"]) == (0, 5, "a1")
    assert (row["ts"], row["previous_log_offset"]) == (at(2), moved)


def test_nothing_left_to_read_is_not_stuck(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    for seconds in range(30):
        made.commit("g", "t", 0, 4, seconds)
    assert rows(stuck(made, 500, [("t", 0, 4)], spark), "group") == []
    assert rows(stuck(made, 500, [], spark), "group") == []


def test_another_groups_commits_show_that_the_log_goes_on(spark: SparkSession) -> None:
    made = HandMade(spark)
    for seconds in range(10):
        made.commit("g", "t", 0, 4, seconds)
    made.commit("h", "t", 0, 50, 20)
    assert rows(stuck(made, 20, [], spark), "group", "amount") == [("g", 46)]


def test_an_owner_that_fell_silent_has_stopped_but_a_group_without_members_has_ended(
    spark: SparkSession,
) -> None:
    made = HandMade(spark)
    for group in ("g", "h"):
        made.generation(group, 1, {"a1": [("t", 0)]}, 0)
        for seconds in range(5):
            made.commit(group, "t", 0, seconds, seconds)
    made.emptied("h", 2, 6)
    assert rows(stuck(made, 50, [("t", 0, 9)], spark), "group") == []
    assert rows(stuck(made, 90, [("t", 0, 9)], spark), "group", "amount") == [("g", 5)]


def test_rebalances_that_chase_each_other_are_one_storm(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": []}, 0)
    records = [made.generation("g", 2 + n, {"a1": []}, 10_000 + 100 * n) for n in range(7)]
    made.generation("g", 9, {"a1": []}, 50_000)
    for n in range(4):
        made.generation("calm", 1 + n, {"a1": []}, n)
    row = one(rebalance_storm(rebalance_stats(made)))
    assert (row["group"], row["amount"], row["generation"]) == ("g", 7, 8)
    assert (row["previous_log_offset"], row["log_offset"]) == (records[0], records[-1])
    assert (row["ts"], row["until_ts"]) == (at(10_000), at(10_600))


def test_a_group_that_empties_again_and_again_flaps(spark: SparkSession) -> None:
    made = HandMade(spark)
    for n in range(3):
        made.generation("g", 1 + 2 * n, {f"a{n}": []}, 100 * n)
        made.emptied("g", 2 + 2 * n, 100 * n + 50)
        made.generation("slow", 1 + 2 * n, {f"a{n}": []}, 3000 * n)
        made.emptied("slow", 2 + 2 * n, 3000 * n + 50)
    row = one(flapping_group(rebalance_stats(made)))
    assert (row["group"], row["amount"]) == ("g", 3)


NOBODY = "log_partition int, `group` string, group_log_offset bigint, generation int, topics array<string>"


def expiring(made: HandMade, seconds: float, retention_days: int = 7) -> DataFrame:
    return expiring_offsets(
        latest_offsets(made),
        made.table("group_generations"),
        made.table("members"),
        made.spark.createDataFrame([], NOBODY),
        retention_days * 1440,
        moment(at(seconds)),
    )


def test_offsets_of_an_empty_group_expire_after_it_became_empty(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    commit = made.commit("g", "t", 0, 1, 10)
    made.commit("g", "t", 1, 1, 11)
    made.emptied("g", 2, 2 * DAY_S)
    assert rows(expiring(made, 7.5 * DAY_S), "group") == []
    row = one(expiring(made, 8.5 * DAY_S))
    assert (row["amount"], row["until_ts"]) == (2, at(9 * DAY_S))
    assert commit <= row["log_offset"] <= commit + 1


def test_of_a_group_with_members_only_topics_that_nobody_reads_expire(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 1, 10)
    made.commit("g", "old", 0, 1, 10)
    made.generation("connect", 1, {"a1": []}, 0, protocol_type="connect", is_readable=False)
    made.commit("connect", "old", 0, 1, 10)
    assert rows(expiring(made, 6.5 * DAY_S), "group", "topic") == [("g", "old")]


def test_a_commit_without_a_group_expires_by_itself_or_when_it_says(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.commit("simple", "t", 0, 1, 0)
    made.commit("timed", "t", 0, 1, 0, expire_ts=at(2 * DAY_S))
    assert rows(expiring(made, 1.5 * DAY_S), "group", "until_ts") == [("timed", at(2 * DAY_S))]
    assert rows(expiring(made, 6.5 * DAY_S), "group") == ["simple", "timed"]
