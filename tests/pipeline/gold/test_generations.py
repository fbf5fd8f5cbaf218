"""Tables of group records: rebalances and ownership."""

from pyspark.sql import SparkSession

from tests.pipeline.gold.silver import ownership, rebalance_stats
from tests.pipeline.hand_made import HandMade, at
from tests.pipeline.rows import one, rows


def test_who_came_and_who_left(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.created("g", 0)
    made.generation("g", 1, {"a1": [("t", 0)], "b1": [("t", 1)]}, 1)
    made.generation("g", 2, {"b1": [("t", 0)], "c1": [("t", 1)]}, 2)
    made.emptied("g", 3, 3)
    columns = ("generation", "kind", "joined_members", "left_members", "n_stayed", "was_empty", "ended_by")
    assert rows(rebalance_stats(made), *columns) == [
        (1, "rebalance", ["a1", "b1"], [], 0, True, "rebalance"),
        (2, "rebalance", ["c1"], ["a1"], 1, False, "emptied"),
        (3, "emptied", [], ["b1", "c1"], 0, False, None),
    ]


def test_a_group_first_seen_in_the_middle_of_its_life_has_unknown_newcomers(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 17, {"a1": [("t", 0)]}, 1)
    made.generation("g", 20, {"a1": [("t", 0)]}, 9)
    columns = ("generation", "joined_members", "left_members", "unseen_generations", "was_empty")
    assert rows(rebalance_stats(made), *columns) == [(17, None, None, 0, False), (20, [], [], 2, False)]


def test_a_new_life_of_a_group_is_no_rewind_of_generations(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 5, {"a1": [("t", 0)]}, 1)
    made.emptied("g", 6, 2)
    made.deleted("g", 3)
    made.created("g", 4)
    made.generation("g", 1, {"a1": [("t", 0)]}, 5)
    table = rebalance_stats(made)
    assert rows(table, "log_offset", "generation", "ended_by") == [
        (0, 5, "emptied"),
        (1, 6, "deleted"),
        (4, 1, None),
    ]
    assert one(table.where("generation = 1"))["joined_members"] == ["a1"]
    assert rows(ownership(made), "from_log_offset", "to_log_offset", "ended_by") == [
        (0, 1, "emptied"),
        (4, None, None),
    ]


def test_a_static_member_that_comes_back_keeps_what_it_held(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1@one": [("t", 0)], "b1@two": [("t", 1)]}, 1)
    made.generation("g", 1, {"a2@one": [("t", 0)], "b1@two": [("t", 1)]}, 5)
    made.generation("g", 2, {"a2@one": [("t", 0), ("t", 1)]}, 9)
    columns = (
        "generation",
        "static_replacements",
        "joined_members",
        "left_members",
        "log_offset",
        "ended_ts",
    )
    assert rows(rebalance_stats(made), *columns) == [
        (1, 1, ["one", "two"], [], 0, at(9)),
        (2, 0, [], ["two"], 2, None),
    ]
    columns_held = (
        "partition",
        "member",
        "member_id",
        "from_ts",
        "to_ts",
        "from_generation",
        "to_generation",
    )
    assert rows(ownership(made), *columns_held) == [
        (0, "one", "a1", at(1), None, 1, 2),
        (1, "one", "a2", at(9), None, 2, 2),
        (1, "two", "b1", at(1), at(9), 1, 1),
    ]


def test_a_partition_that_comes_back_to_a_member_is_held_twice(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 1)
    made.generation("g", 2, {"a1": [], "b1": [("t", 0)]}, 2)
    made.generation("g", 3, {"a1": [("t", 0)]}, 3)
    assert rows(ownership(made), "member", "from_log_offset", "to_log_offset", "ended_by") == [
        ("a1", 0, 1, "reassigned"),
        ("a1", 2, None, None),
        ("b1", 1, 2, "reassigned"),
    ]


def test_the_pause_lies_between_the_commits_around_a_generation(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 1, sync_s=0.5)
    before = made.commit("g", "t", 0, 1, 10)
    made.commit("h", "t", 0, 1, 11)
    made.commit("g", "t", 0, None, 11.5)
    made.generation("g", 2, {"a1": [("t", 0)], "b1": [("t", 1)]}, 12, sync_s=0.125)
    made.generation("g", 3, {"b1": [("t", 0), ("t", 1)]}, 13)
    after = made.commit("g", "t", 1, 1, 14)
    made.commit("g", "t", 1, 2, 15)
    table = rebalance_stats(made)
    assert rows(table, "generation", "sync_ms", "consumption_pause_ms") == [
        (1, 500, None),
        (2, 125, 4000),
        (3, 250, 4000),
    ]
    evidence = ("last_commit_before_log_offset", "first_commit_after_log_offset")
    assert rows(table.where("generation > 1"), *evidence) == [(before, after), (before, after)]
    assert one(table.where("generation = 2"))["last_commit_before_ts"] == at(10)


def test_an_emptied_group_has_no_pause_but_the_next_generation_knows_of_it(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 1)
    made.commit("g", "t", 0, 1, 2)
    made.emptied("g", 2, 3)
    made.generation("g", 3, {"a2": [("t", 0)]}, 100)
    made.commit("g", "t", 0, 2, 102)
    columns = ("generation", "was_empty", "sync_ms", "consumption_pause_ms", "pause_spans_empty")
    assert rows(rebalance_stats(made), *columns) == [
        (1, True, 250, None, None),
        (2, False, None, None, None),
        (3, True, 250, 100_000, True),
    ]


def test_a_pause_that_began_before_the_group_emptied_spans_that(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)], "b1": []}, 1)
    made.commit("g", "t", 0, 1, 2)
    made.generation("g", 2, {"a1": [("t", 0)]}, 3)
    made.emptied("g", 3, 4)
    made.generation("g", 4, {"a2": [("t", 0)]}, 100)
    made.commit("g", "t", 0, 2, 102)
    made.generation("g", 5, {"a2": [("t", 0)]}, 103)
    made.commit("g", "t", 0, 3, 104)
    columns = ("generation", "consumption_pause_ms", "pause_spans_empty")
    assert rows(rebalance_stats(made).where("kind = 'rebalance'"), *columns) == [
        (1, None, None),
        (2, 100_000, True),
        (4, 100_000, True),
        (5, 2_000, False),
    ]


def test_no_group_records_make_empty_tables(spark: SparkSession) -> None:
    made = HandMade(spark)
    made.commit("g", "t", 0, 1, 2)
    assert rows(rebalance_stats(made), "group") == []
    assert rows(ownership(made), "group") == []
