"""Find offsets that the coordinator will soon expire. A consumer that returns later starts at auto.offset.reset.

The expiry follows Kafka. A commit may carry its own expiry time. Otherwise the retention counts:

- for a group without members, from the time at which it became empty;
- for a group that never had members, from the commit;
- for a consumer group with members, from the commit, but only for topics without a subscriber. This applies to
  KIP-848 groups with or without members.

Other offsets do not expire.

Source: KIP-211, Kafka's `OffsetExpirationCondition`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pipeline.gold.group_records import ASSIGNED, DELETED, GroupRecords, Row, group_key

WARN_S: Final = 86400
_COMMIT_SAYS: Final = "the commit has an expiry time"
_NOT_SUBSCRIBED: Final = "no member subscribes to the topic"
_NO_MEMBERS: Final = "the group has no members"
_NEVER_MEMBERS: Final = "the group never had members"
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """The state of a group of either protocol at the end of the log."""

    has_members: bool
    """With respect to expiry. A KIP-848 consumer group always counts as having members."""
    was_simple: bool = False
    """The group never had members of a protocol, or is deleted."""
    is_deleted: bool = False
    state_us: int | None = None
    topics: frozenset[str] | None = None
    """The subscribed topics; None if they cannot be decoded."""
    group_log_offset: int | None = None
    generation: int | None = None


def group_standing(history: GroupRecords, consumer: Row | None) -> GroupStanding | None:
    """Return the final state of a group from its records and `consumer_standing`; None without a record."""
    last = history.classic[-1] if history.classic else None
    if consumer is not None and (last is None or consumer["log_offset"] > last["log_offset"]):
        topics = frozenset(consumer["topics"])
        place = {"group_log_offset": consumer["log_offset"], "generation": consumer["epoch"]}
        return GroupStanding(has_members=True, topics=topics, **place)
    if last is None:
        return None
    return GroupStanding(
        has_members=last["kind"] == ASSIGNED,
        was_simple=not last["protocol_type"],
        is_deleted=last["kind"] == DELETED,
        state_us=last["state_ts"],
        topics=_subscribed_topics(last, history),
        group_log_offset=last["log_offset"],
        generation=last["generation"],
    )


def _subscribed_topics(record: Row, history: GroupRecords) -> frozenset[str] | None:
    members = history.members[record["log_offset"]]
    is_unreadable = any(row["subscribed_topics"] is None for row in members)
    if record["protocol_type"] != "consumer" or not members or is_unreadable:
        return None
    return frozenset(topic for row in members for topic in row["subscribed_topics"])


def expiring_offsets(
    latest_offsets: Iterable[Row], standing: GroupStanding | None, retention_minutes: int, as_of_us: int
) -> list[Row]:
    """Return one row for each topic of a group with offsets that expire within a day, or are overdue. `amount`: the
    number of partitions; `until_ts`: the first expiry.

    Args:
        latest_offsets: the group's rows of `latest_offsets`.
        standing: the group's state.
        retention_minutes: `offsets.retention.minutes` of the cluster.
        as_of_us: the reference time in microseconds.
    """
    due: dict[tuple[str, str], list[tuple[int, Row]]] = {}
    for row in latest_offsets:
        base_us = _retained_since(row, standing)
        if base_us is None:
            continue
        is_own = row["expire_ts"] is not None
        expires_us = row["expire_ts"] if is_own else base_us + retention_minutes * 60 * _MICROS
        if expires_us <= as_of_us + WARN_S * _MICROS:
            why = _COMMIT_SAYS if is_own else _reason(standing)
            due.setdefault((row["topic"], why), []).append((expires_us, row))
    return [_row(rows, why, standing) for (_, why), rows in due.items()]


def _retained_since(row: Row, standing: GroupStanding | None) -> int | None:
    """Return the start of the retention of an offset; None if it does not expire."""
    commit_us: int | None = row["commit_ts"]
    if standing is None or standing.is_deleted or standing.was_simple:
        return commit_us
    if not standing.has_members:
        return commit_us if standing.state_us is None else standing.state_us
    return None if standing.topics is None or row["topic"] in standing.topics else commit_us


def _reason(standing: GroupStanding | None) -> str:
    if standing is None or standing.is_deleted:
        return _NEVER_MEMBERS
    if standing.has_members:
        return _NOT_SUBSCRIBED
    return _NEVER_MEMBERS if standing.was_simple else _NO_MEMBERS


def _row(due: list[tuple[int, Row]], why: str, standing: GroupStanding | None) -> Row:
    expires_us, first = min(due, key=lambda found: found[0])
    return group_key(first) | {
        "topic": first["topic"],
        "detail": why,
        "group_log_offset": None if standing is None else standing.group_log_offset,
        "generation": None if standing is None else standing.generation,
        "amount": len(due),
        "until_ts": expires_us,
        "ts": first["commit_ts"],
        **{name: first[name] for name in ("log_offset", "partition", "offset")},
    }
