"""The causes of epochs of consumer groups, from the records that the product's own core writes."""

from typing import Any

from coordinator.group.topics_image import TopicImage
from pipeline.gold.rebalance_causes import causes
from storage.batch import encode_batch
from tests.group.consumer.members import FOO
from tests.pipeline.consumer_log import ConsumerLog
from tests.pipeline.silver_tables import expected_tables
from tests.pipeline.test_decode import plain

Row = dict[str, Any]
SOURCES = (
    "group_generations", "members", "assignments", "group_epochs", "consumer_members", "member_epochs",
    "member_partitions",
)  # fmt: skip


def told(group: ConsumerLog) -> list[Row]:
    tables = expected_tables(plain(encode_batch(group.written))[0])
    rows: list[Row] = []
    for source in SOURCES:
        for row in tables[source]:
            more = {
                "source": source,
                "record_us": int(row["record_ts"].timestamp() * 1_000_000),
                "topics": row.get("subscribed_topics"),
                "expression": row.get("subscribed_expression"),
                "generation": row.get("epoch", row.get("generation")),
                "topic": row.get("topic", row.get("topic_id")),
            }
            rows.append(row | more)
    return causes(rows)


def story(group: ConsumerLog, *columns: str) -> list[Any]:
    return [tuple(row[name] for name in columns) for row in told(group)]


def later(group: ConsumerLog) -> None:
    group.advance(2000)


def test_members_that_come_go_and_come_back() -> None:
    group = ConsumerLog()
    group.enter("a1", client_id="a")
    later(group)
    group.enter("b1", client_id="b")
    later(group)
    group.say("b1", -1)
    later(group)
    group.enter("b2", client_id="b")
    later(group)
    for member_id in ("a1", "b2"):
        group.say(member_id, -1)
        later(group)
    found = [(row["cause"], len(row["came"]), len(row["went"]), len(row["came_back"])) for row in told(group)]
    assert found == [
        ("first members", 1, 0, 0),
        ("came", 1, 0, 0),
        ("went", 0, 1, 0),
        ("came", 1, 0, 0),
        ("went", 0, 1, 0),
        ("last went", 0, 1, 0),
    ]
    assert {name.partition("@")[0] for row in told(group) for name in row["came"]} == {"a", "b"}


def test_a_target_says_what_moves() -> None:
    """Three partitions, one member and then two: one moves, and it had to."""
    group = ConsumerLog()
    group.enter("a1")
    later(group)
    group.enter("b1")
    assert story(group, "n_members", "n_partitions", "needless", "fewest", "most", "idle") == [
        (1, 3, None, 3, 3, 0),
        (2, 3, 0, 1, 2, 0),
    ]
    assert told(group)[-1]["moved"] == 1


def test_another_subscription_and_other_partitions() -> None:
    group = ConsumerLog()
    epoch, _ = group.enter("a1")
    later(group)
    group.topics_are(TopicImage("foo", FOO, 5))
    later(group)
    epoch, _ = group.say("a1", int(str(epoch)))
    later(group)
    group.say("a1", int(str(epoch)), names=["foo", "bar"])
    assert [row["cause"] for row in told(group)] == [
        "first members",
        "partitions changed",
        "subscription changed",
    ]


def test_more_members_than_partitions() -> None:
    group = ConsumerLog()
    for member_id in ("a1", "b1", "c1", "d1"):
        group.enter(member_id)
        later(group)
    assert told(group)[-1]["idle"] == 1
