"""Each kind of anomaly, and similar histories without it."""

from collections.abc import Callable

import pyarrow as pa

from pipeline.gold.anomalies.anomaly import anomaly_rows
from pipeline.gold.anomalies.expiring_offsets import expiring_offsets, group_standing
from pipeline.gold.anomalies.flapping_group import flapping_group
from pipeline.gold.anomalies.offset_rewind import REWINDS, offset_rewind
from pipeline.gold.anomalies.outside_ownership import UNOWNED, outside_ownership
from pipeline.gold.anomalies.rebalance_storm import rebalance_storm
from pipeline.gold.anomalies.stuck_partition import HABITS, REACHES, standstills, stuck_partition
from pipeline.gold.group_records import GroupRecords, Row
from pipeline.gold.lag import lag
from pipeline.gold.rebalance_stats import COMMITS_AFTER, rebalance_stats
from pipeline.table import rows_of
from tests.pipeline.gold.silver import (
    aggregates,
    histories,
    history,
    latest_offsets,
    log_ends,
    micros,
    of_fold,
    ownership_of,
)
from tests.pipeline.hand_made import HandMade, at
from tests.pipeline.rows import one, rows

DAY_S = 86400


def outside(made: HandMade) -> pa.Table:
    found = [
        row for group in histories(made) for row in outside_ownership(of_fold(made, UNOWNED, group), group)
    ]
    return anomaly_rows("outside_ownership", found)


def of_rebalances(made: HandMade, judge: Callable[[list[Row]], list[Row]]) -> pa.Table:
    found = []
    for group in histories(made):
        found += judge(rebalance_stats(group, of_fold(made, COMMITS_AFTER, group)))
    return anomaly_rows("any", found)


def test_a_rewind_names_both_writers_and_both_commits() -> None:
    made = HandMade()
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


def test_a_reset_of_an_empty_group_has_no_writer() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 90, 2)
    made.emptied("g", 2, 3)
    made.commit("g", "t", 0, 0, 4)
    row = one(offset_rewind(REWINDS.of(history(made))))
    assert (row["previous_member"], row["member"]) == ("a1", None)


def test_commits_for_partitions_of_nobody_are_counted_by_generation() -> None:
    made = HandMade()
    made.commit("g", "u", 0, 1, 0)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 5, 1)
    first = made.commit("g", "u", 0, 2, 2)
    made.commit("g", "u", 0, 3, 3)
    record = made.generation("g", 2, {"a1": [("u", 0)]}, 4)
    made.commit("g", "u", 0, 4, 5)
    made.emptied("g", 3, 6)
    made.commit("g", "u", 0, 5, 7)
    row = one(outside(made))
    assert (row["topic"], row["partition"], row["amount"], row["log_offset"]) == ("u", 0, 2, first)
    assert (row["generation"], row["group_log_offset"]) == (1, 1)
    assert (row["ts"], row["until_ts"]) == (at(2), at(3))
    assert record != 1


def test_assignments_that_nobody_can_read_accuse_nobody() -> None:
    made = HandMade()
    made.generation("connect", 1, {"a1": []}, 0, protocol_type="connect")
    made.commit("connect", "t", 0, 1, 1)
    made.generation("odd", 1, {"a1": []}, 0, is_readable=False)
    made.commit("odd", "t", 0, 1, 1)
    assert rows(outside(made), "group") == []


def stuck(made: HandMade, seconds: float, ends: list[tuple[str, int, int]]) -> pa.Table:
    measured = [(topic, partition, at(seconds), 0, end, "file") for topic, partition, end in ends]
    behind, now_us = lag(latest_offsets(made), log_ends(measured)), micros(at(seconds))
    found = standstills(HABITS.of(aggregates(made)), behind, now_us)
    stuck_ones = stuck_partition(
        rows_of(found), rows_of(REACHES.of(behind)), rows_of(ownership_of(made)), now_us
    )
    return anomaly_rows("stuck_partition", stuck_ones)


def test_an_offset_that_stays_while_the_log_goes_on_is_stalled() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0), ("t", 1), ("t", 2)]}, 0)
    made.commit("g", "t", 0, 3, 1)
    moved = made.commit("g", "t", 0, 4, 2)
    for seconds in range(3, 12):
        made.commit("g", "t", 0, 4, seconds)
        made.commit("g", "t", 1, 4, seconds)
        made.commit("g", "t", 2, seconds, seconds)
    row = one(stuck(made, 12, [("t", 0, 9), ("t", 1, 9), ("t", 2, 99)]))
    assert (row["partition"], row["amount"], row["member"]) == (0, 5, "a1")
    assert (row["ts"], row["previous_log_offset"]) == (at(2), moved)


def test_nothing_left_to_read_is_not_stuck() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    for seconds in range(30):
        made.commit("g", "t", 0, 4, seconds)
    assert rows(stuck(made, 500, [("t", 0, 4)]), "group") == []
    assert rows(stuck(made, 500, []), "group") == []


def test_another_groups_commits_show_that_the_log_goes_on() -> None:
    made = HandMade()
    for seconds in range(10):
        made.commit("g", "t", 0, 4, seconds)
    made.commit("h", "t", 0, 50, 20)
    assert rows(stuck(made, 20, []), "group", "amount") == [("g", 46)]


def test_an_owner_that_fell_silent_has_stopped_but_a_group_without_members_has_ended() -> None:
    made = HandMade()
    for group in ("g", "h"):
        made.generation(group, 1, {"a1": [("t", 0)]}, 0)
        for seconds in range(5):
            made.commit(group, "t", 0, seconds, seconds)
    made.emptied("h", 2, 6)
    assert rows(stuck(made, 50, [("t", 0, 9)]), "group") == []
    assert rows(stuck(made, 90, [("t", 0, 9)]), "group", "amount") == [("g", 5)]


def test_rebalances_that_chase_each_other_are_one_storm() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": []}, 0)
    records = [made.generation("g", 2 + n, {"a1": []}, 10_000 + 100 * n) for n in range(7)]
    made.generation("g", 9, {"a1": []}, 50_000)
    for n in range(4):
        made.generation("calm", 1 + n, {"a1": []}, n)
    row = one(of_rebalances(made, rebalance_storm))
    assert (row["group"], row["amount"], row["generation"]) == ("g", 7, 8)
    assert (row["previous_log_offset"], row["log_offset"]) == (records[0], records[-1])
    assert (row["ts"], row["until_ts"]) == (at(10_000), at(10_600))


def test_a_clock_that_is_set_back_makes_no_storm_and_no_negative_period() -> None:
    made = HandMade()
    for n in range(4):
        made.generation("g", n + 1, {f"m{n}": [("t", 0)]}, 3600 + 400 * n)
    for n in range(4):
        made.generation("g", n + 5, {f"m{n}": [("t", 0)]}, 400 * n)
    assert rows(of_rebalances(made, rebalance_storm), "amount") == []
    for n in range(10):
        made.generation("g", n + 9, {f"m{n}": [("t", 0)]}, 3000 + (n if n < 5 else n - 60))
    found = of_rebalances(made, rebalance_storm)
    assert rows(found, "ts", "until_ts", "amount") == [
        (at(2945), at(2949), 5),
        (at(3000), at(3004), 5),
    ]


def test_a_partition_whose_clock_was_set_back_has_not_stopped() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)]}, 3600)
    for n in range(5):
        made.commit("g", "t", 0, n, 3600 + n)
    for n in range(5, 8):
        made.commit("g", "t", 0, n, n)
    assert rows(stuck(made, 200, [("t", 0, 100)]), "detail") == []


def test_a_group_that_empties_again_and_again_flaps() -> None:
    made = HandMade()
    for n in range(3):
        made.generation("g", 1 + 2 * n, {f"a{n}": []}, 100 * n)
        made.emptied("g", 2 + 2 * n, 100 * n + 50)
        made.generation("slow", 1 + 2 * n, {f"a{n}": []}, 3000 * n)
        made.emptied("slow", 2 + 2 * n, 3000 * n + 50)
    row = one(of_rebalances(made, flapping_group))
    assert (row["group"], row["amount"]) == ("g", 3)


def expiring(made: HandMade, seconds: float, retention_days: int = 7) -> pa.Table:
    latest: dict[str, list[Row]] = {}
    for row in rows_of(latest_offsets(made)):
        latest.setdefault(row["group"], []).append(row)
    recorded = {group.group: group for group in histories(made)}
    found = []
    for name, offsets in latest.items():
        standing = group_standing(recorded.get(name, GroupRecords(0, name)), None)
        found += expiring_offsets(offsets, standing, retention_days * 1440, micros(at(seconds)))
    return anomaly_rows("expiring_offsets", found)


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    commit = made.commit("g", "t", 0, 1, 10)
    made.commit("g", "t", 1, 1, 11)
    made.emptied("g", 2, 2 * DAY_S)
    assert rows(expiring(made, 7.5 * DAY_S), "group") == []
    row = one(expiring(made, 8.5 * DAY_S))
    assert (row["amount"], row["until_ts"]) == (2, at(9 * DAY_S))
    assert commit <= row["log_offset"] <= commit + 1


def test_of_a_group_with_members_only_topics_that_nobody_reads_expire() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 1, 10)
    made.commit("g", "old", 0, 1, 10)
    made.generation("connect", 1, {"a1": []}, 0, protocol_type="connect", is_readable=False)
    made.commit("connect", "old", 0, 1, 10)
    assert rows(expiring(made, 6.5 * DAY_S), "group", "topic") == [("g", "old")]


def test_a_commit_without_a_group_expires_by_itself_or_when_it_says() -> None:
    made = HandMade()
    made.commit("simple", "t", 0, 1, 0)
    made.commit("timed", "t", 0, 1, 0, expire_ts=at(2 * DAY_S))
    assert rows(expiring(made, 1.5 * DAY_S), "group", "until_ts") == [("timed", at(2 * DAY_S))]
    assert rows(expiring(made, 6.5 * DAY_S), "group") == ["simple", "timed"]
