"""The history of a consumer group from its records, compared with the coordinator's description at each step."""

from typing import Any

import pytest

from pipeline.gold.replay import replay
from storage.batch import encode_batch
from storage.topic_partition import uuid_to_text
from tests.pipeline.consumer_log import ConsumerLog, Life
from tests.pipeline.silver_tables import expected_tables
from tests.pipeline.test_decode import plain

Row = dict[str, Any]
SILVER = ("group_epochs", "consumer_members", "member_epochs", "member_partitions", "group_expressions")


def events(group: ConsumerLog, what: str) -> list[Row]:
    """What the records of a group come to."""
    tables = expected_tables(plain(encode_batch(group.written))[0])
    rows: list[Row] = []
    for name in SILVER:
        for row in tables[name]:
            time_us = int(row["record_ts"].timestamp() * 1_000_000)
            more = {"topics": row.get("subscribed_topics"), "expression": row.get("subscribed_expression")}
            subscribed = more if name == "consumer_members" else {}
            rows.append(row | {"source": name, "record_us": time_us} | subscribed)
    return [event for event in replay(rows) if event["what"] == what]


@pytest.mark.parametrize("seed", range(30))
def test_it_says_of_random_histories_what_the_coordinator_did(seed: int) -> None:
    life = Life(seed)
    members: dict[int, list[str]] = {}
    stable_us: dict[int, int] = {}
    begun_us: dict[int, int] = {}
    held: dict[tuple[str, str, int], list[list[int | None]]] = {}
    group = life.group
    for _ in range(40):
        life.step()
        state, epoch, _ = group.epochs()
        now_us = group.now.wall_ms * 1000
        if epoch not in members:
            members[epoch], begun_us[epoch] = group.members(), now_us
        if state == "Stable":
            stable_us.setdefault(epoch, now_us)
        now = {
            (member.member_id, uuid_to_text(topic.topic_id), partition)
            for member in group.described().members
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        }
        for key in now:
            stretches = held.setdefault(key, [])
            if not stretches or stretches[-1][1] is not None:
                stretches.append([now_us, None])
        for key in held.keys() - now:
            held[key][-1][1] = held[key][-1][1] or now_us
    epochs = events(group, "epoch")
    assert [event["epoch"] for event in epochs] == sorted(members)
    for before, event in zip([None, *epochs], epochs, strict=False):
        epoch = event["epoch"]
        was = members[before["epoch"]] if before is not None else []
        assert (event["n_members"], event["from_us"]) == (len(members[epoch]), begun_us[epoch])
        assert event["joined"] == [one for one in members[epoch] if one not in was]
        assert event["left"] == [one for one in was if one not in members[epoch]]
        assert event.get("converged_us") == stable_us.get(epoch)
        assert event["kind"] == ("rebalance" if members[epoch] else "emptied")
    found: dict[tuple[str, str, int], list[list[int | None]]] = {}
    for event in events(group, "holding"):
        key = event["member"], event["topic_id"], event["partition"]
        found.setdefault(key, []).append([event["from_us"], event.get("to_us")])
    assert found == held


def test_a_member_that_takes_its_time_to_give_back_is_told_of() -> None:
    group = ConsumerLog()
    group.enter("a")
    group.enter("b")
    group.advance(1000)
    group.say("a", 2)
    group.advance(40_000)
    group.say("a", 2, owned={})
    (event,) = events(group, "revocation")
    assert (event["member"], event["ended_by"], event["to_us"] - event["from_us"]) == (
        "a",
        "revoked",
        40_000_000,
    )


def test_a_topic_is_known_by_the_members_that_subscribe_to_nothing_else() -> None:
    group = ConsumerLog()
    group.enter("a")
    (event,) = events(group, "topic")
    assert event["topic"] == "foo"
    (standing,) = events(group, "standing")
    assert standing["topics"] == ["foo"]
