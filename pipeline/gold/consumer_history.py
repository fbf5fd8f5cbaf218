"""The parts of gold tables derived from the histories of consumer groups, which `replay` returns."""

from collections.abc import Iterable
from typing import Final

from pipeline.gold.group_kinds import CONSUMER
from pipeline.gold.group_records import GroupRecords, Row
from pipeline.gold.rebalance_stats import elapsed_ms
from pipeline.gold.replay import EPOCH, HOLDING, REVOCATION, STANDING, TOPIC, replay

TABLES: Final = (
    "group_epochs",
    "consumer_members",
    "member_epochs",
    "member_partitions",
    "group_expressions",
)
"""The silver tables of consumer groups."""


def consumer_events(history: GroupRecords) -> list[Row]:
    """Return the events of a group."""
    return replay(_replayed(name, row) for name in TABLES for row in history.table(name))


def _replayed(source: str, row: Row) -> Row:
    found = row | {"source": source, "record_us": row["record_ts"]}
    if source == "consumer_members":
        found |= {"topics": row["subscribed_topics"], "expression": row["subscribed_expression"]}
    return found


def _of(events: Iterable[Row], what: str) -> Iterable[Row]:
    return (event for event in events if event["what"] == what)


def consumer_rebalances(history: GroupRecords, events: Iterable[Row]) -> list[Row]:
    """Return the epochs, with the columns of `rebalance_stats` that apply to them."""
    return [
        history.key
        | {
            "group_kind": CONSUMER,
            "generation": event["epoch"],
            "kind": event["kind"],
            "record_ts": event["from_us"],
            "ended_ts": event.get("to_us"),
            "ended_by": event.get("ended_by"),
            "protocol_type": "consumer",
            "n_members": event["n_members"],
            "joined_members": event["joined"],
            "left_members": event["left"],
            "n_stayed": event["n_stayed"],
            "static_replacements": 0,
            "unseen_generations": event["unseen"],
            "was_empty": event["was_empty"],
            "converged_ts": event.get("converged_us"),
            "convergence_ms": elapsed_ms(event["from_us"], event.get("converged_us")),
            "slowest_member": event.get("slowest_member"),
            "log_offset": event["log_offset"],
            "last_log_offset": event["last_log_offset"],
            "previous_log_offset": event["previous_log_offset"],
        }
        for event in _of(events, EPOCH)
    ]


def consumer_holdings(history: GroupRecords, events: Iterable[Row]) -> list[Row]:
    """Return the rows of HOLDINGS."""
    return [
        history.key
        | {name: event[name] for name in ("topic_id", "partition", "member", "member_id")}
        | {name: event[name] for name in ("group_instance_id", "client_id", "client_host")}
        | {
            "from_ts": event["from_us"],
            "to_ts": event.get("to_us"),
            "from_generation": event["epoch"],
            "to_generation": event.get("to_epoch"),
            "ended_by": event.get("ended_by"),
            "from_log_offset": event["log_offset"],
            "to_log_offset": event.get("to_log_offset"),
        }
        for event in _of(events, HOLDING)
    ]


def revocations(history: GroupRecords, events: Iterable[Row]) -> list[Row]:
    """Return the periods in which members had partitions to revoke (`until_ts` NULL: still pending)."""
    return [
        history.key
        | {name: event[name] for name in ("member", "n_partitions", "log_offset")}
        | {
            "generation": event["epoch"],
            "ts": event["from_us"],
            "until_ts": event.get("to_us"),
            "ended_by": event.get("ended_by"),
        }
        for event in _of(events, REVOCATION)
    ]


def topic_names(history: GroupRecords, events: Iterable[Row]) -> set[tuple[str, str]]:
    """Return the topic ids and names in the records of a group."""
    found = {(event["topic_id"], event["topic"]) for event in _of(events, TOPIC)}
    for row in history.table("group_epochs"):
        found |= set(zip(row["topic_ids"] or (), row["topics"] or (), strict=False))
    return {(topic_id, topic) for topic_id, topic in found if topic_id is not None}


def consumer_standing(events: Iterable[Row]) -> Row | None:
    """Return the state of a group that exists at the end: `log_offset`, `epoch`, and subscribed `topics`."""
    return next(iter(_of(events, STANDING)), None)
