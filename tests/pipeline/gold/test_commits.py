"""Tables of commits: history, latest offsets, velocity, statistics."""

import random

from pipeline.gold.anomalies.mixed_commits import MIXTURES, mixed_commits
from pipeline.gold.anomalies.offset_rewind import REWINDS
from pipeline.gold.commit_stats import CLIENTS, commit_stats
from pipeline.gold.velocity import MINUTES, velocity
from tests.pipeline.gold.silver import aggregates, history, latest_offsets
from tests.pipeline.hand_made import HandMade, at, together
from tests.pipeline.rows import one, rows


def test_the_last_commit_of_the_log_counts_not_that_of_the_clock() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 10, 100)
    made.commit("g", "t", 0, 20, 50)
    assert rows(latest_offsets(made), "group", "topic", "partition", "offset", "log_offset") == [
        ("g", "t", 0, 20, 1)
    ]


def test_a_removed_offset_is_no_latest_offset_until_it_is_committed_anew() -> None:
    made = HandMade()
    for partition in (0, 1):
        made.commit("g", "t", partition, 10, 1)
        made.commit("g", "t", partition, None, 2)
    made.commit("g", "t", 1, 3, 3)
    assert rows(latest_offsets(made), "partition", "offset") == [(1, 3)]
    assert rows(REWINDS.of(history(made)), "log_offset") == []


def test_groups_of_the_same_offsets_in_other_log_partitions_stay_apart() -> None:
    first, second = HandMade(1), HandMade(2)
    first.commit("g", "t", 0, 10, 1)
    second.commit("h", "t", 0, 5, 1)
    assert rows(latest_offsets(together([first, second])), "log_partition", "group", "offset") == [
        (1, "g", 10),
        (2, "h", 5),
    ]


def test_a_commit_is_ascribed_to_the_owner_of_the_generation_before_it() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 1, 0)
    made.generation("g", 1, {"a1": [("t", 0)], "b1@static": [("t", 1)]}, 1)
    made.commit("g", "t", 0, 2, 2)
    made.commit("g", "t", 1, 2, 2)
    made.commit("g", "other", 0, 2, 2)
    made.generation("g", 2, {"b1@static": [("t", 0), ("t", 1)]}, 3)
    made.commit("g", "t", 0, 3, 4)
    made.emptied("g", 3, 5)
    made.commit("g", "t", 0, 4, 6)
    assert rows(history(made), "log_offset", "member", "client_id", "previous_member") == [
        (0, None, None, None),
        (2, "a1", "a", None),
        (3, "static", "b", None),
        (4, None, None, None),
        (6, "static", "b", "a1"),
        (8, None, None, "static"),
    ]


def test_a_partition_with_two_owners_names_neither() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)], "b1": [("t", 0)]}, 1)
    made.commit("g", "t", 0, 2, 2)
    assert rows(history(made), "member", "client_id", "n_owners") == [(None, None, 2)]


def test_a_topic_made_anew_does_not_go_backwards() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 100, 1, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    made.commit("g", "t", 0, 3, 2, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    made.commit("g", "t", 0, 2, 3)
    assert rows(history(made), "log_offset", "is_rewind") == [(0, False), (1, False), (2, True)]


def test_velocity_counts_a_rewind_inside_a_minute() -> None:
    made = HandMade()
    for offset, seconds in ((100, 0), (160, 30), (140, 50), (140, 55), (200, 90)):
        made.commit("g", "t", 0, offset, seconds)
    table = velocity(MINUTES.of(aggregates(made)))
    columns = ("minute", "commits", "unmoved_commits", "rewinds", "last_offset", "advance", "elapsed_s")
    assert rows(table, *columns) == [(at(0), 4, 1, 1, 140, 40, 55.0), (at(60), 1, 0, 0, 200, 60, 35.0)]
    assert rows(table, "first_log_offset", "last_log_offset", "offsets_per_s") == [
        (0, 3, 40 / 55),
        (4, 4, 60 / 35),
    ]


def test_a_single_commit_has_no_velocity() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 7, 1)
    row = one(velocity(MINUTES.of(aggregates(made))))
    assert (row["commits"], row["advance"], row["elapsed_s"], row["offsets_per_s"]) == (1, 0, None, None)
    row = one(commit_stats(CLIENTS.of(aggregates(made))))
    assert (row["commits"], row["unmoved_share"], row["commits_per_minute"]) == (1, 0.0, None)


def test_commits_are_counted_by_client_and_those_that_moved_nothing_among_them() -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)], "a2": [("t", 1)], "b1": [("u", 0)]}, 1)
    for seconds, offset in ((0, 5), (30, 5), (60, 6)):
        made.commit("g", "t", 0, offset, seconds)
    made.commit("g", "t", 1, 6, 60)
    made.commit("g", "u", 0, 1, 60)
    made.commit("g", "u", 0, None, 61)
    made.commit("g", "v", 0, 1, 62)
    columns = ("client_id", "commits", "unmoved_commits", "unmoved_share", "partitions", "commits_per_minute")
    assert rows(commit_stats(CLIENTS.of(aggregates(made))), *columns) == [
        (None, 1, 0, 0.0, 1, None),
        ("a", 4, 1, 0.25, 2, 4.0),
        ("b", 1, 0, 0.0, 1, None),
    ]


def test_tables_agree_with_a_plain_walk() -> None:
    made = HandMade()
    standing: dict[tuple[str, int], int] = {}
    advanced: dict[tuple[str, int], int] = {}
    kinds: dict[tuple[str, int], bool] = {}
    mixed: dict[str, list[int]] = {}
    counts = {"commits": 0, "unmoved_commits": 0, "rewinds": 0, "transactional_commits": 0}
    for _ in range(500):
        group, partition, seconds = random.choice("ghijk"), random.randrange(6), random.randrange(300)
        offset = random.choice([None, *range(12)])
        is_transactional = offset is not None and random.random() < 0.3
        place = made.commit(
            group, "t", partition, offset, seconds, producer_id=seconds if is_transactional else None
        )
        key = group, partition
        if kinds.pop(key, is_transactional) != is_transactional and offset is not None:
            mixed.setdefault(group, []).append(place)
        if offset is not None:
            kinds[key] = is_transactional
        before = standing.pop(key, None)
        if offset is None:
            continue
        standing[key] = offset
        advanced[key] = advanced.get(key, 0) + (0 if before is None else offset - before)
        counts["commits"] += 1
        counts["unmoved_commits"] += offset == before
        counts["rewinds"] += before is not None and offset < before
        counts["transactional_commits"] += is_transactional
    assert {
        (group, partition): offset
        for group, partition, offset in rows(latest_offsets(made), "group", "partition", "offset")
    } == standing
    sums: dict[tuple[str, int], int] = {}
    minutes = rows(velocity(MINUTES.of(aggregates(made))), "group", "partition", "advance", *counts)
    for group, partition, advance, *_ in minutes:
        sums[group, partition] = sums.get((group, partition), 0) + advance
    assert sums == advanced
    for counted in ([row[3:] for row in minutes], rows(commit_stats(CLIENTS.of(aggregates(made))), *counts)):
        assert [sum(column) for column in zip(*counted, strict=True)] == list(counts.values())
    told = rows(mixed_commits(MIXTURES.of(history(made))), "group", "amount", "log_offset")
    assert told == [(group, len(places), places[0]) for group, places in sorted(mixed.items())]
