"""Replay one consumer group (KIP-848) from its records in log order.

A classic group writes its whole state into one record. A consumer group writes a record for each change, and its
meaning depends on the earlier state. Therefore this module processes a group's records one by one, without Spark.
Records that a coordinator writes together have the same timestamp; the group is evaluated after the last of them.

An epoch has *converged* when a target assignment of that or a later epoch exists and every member is stable at the
target's epoch: Kafka's state `Stable`.

Source: Kafka's `ConsumerGroup`, `CurrentAssignmentBuilder`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

EPOCH: Final = "epoch"
HOLDING: Final = "holding"
REVOCATION: Final = "revocation"
TOPIC: Final = "topic"
STANDING: Final = "standing"

FIRST_WRITTEN_EPOCH: Final = 2
"""A group starts with epoch 1, which has no record."""

Row = dict[str, Any]
Place = tuple[str, int]
"""A topic id and a partition."""


@dataclass(slots=True)
class _Member:
    """A member's identity and state. NULL records leave the defaults."""

    info: Row = field(default_factory=dict)
    epoch: int | None = None
    state: str | None = None
    holds: dict[Place, Row] = field(default_factory=dict)
    revocation: Row | None = None

    def name(self, member_id: str) -> str:
        """Return the instance id of a static member, else the member id."""
        return str(self.info.get("group_instance_id") or member_id)


def replay(rows: Iterable[Row]) -> list[Row]:
    """Return the events of one group.

    Args:
        rows: the group's rows of the silver consumer group tables, each with its table in `source` and its time in
            `record_us`.

    Returns rows with the kind of event in `what`:

    - `epoch`: each epoch with a record, the members that joined and left, its end and its time of convergence;
    - `holding`: the ownership of a partition by a member, from start to end;
    - `revocation`: the period in which a member had partitions to revoke;
    - `topic`: the name of a topic id;
    - `standing`: the group exists at the end, with its subscribed topics.
    """
    group = _Group()
    for _, some in groupby(sorted(rows, key=itemgetter("log_offset")), key=itemgetter("log_offset")):
        found = list(some)
        partitions = [row for row in found if row["source"] == "member_partitions"]
        for record in found:
            if record["source"] != "member_partitions":
                group.take(record, partitions)
    return list(group.told())


class _Group:
    """The state of a group after the records read so far."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}
        self._expressions: dict[str, list[str]] = {}
        self._target_epoch = 0
        self._epoch: Row | None = None
        self._epoch_members: dict[str, None] = {}
        self._is_there = False
        self._last_offset = -1
        self._turn_us: int | None = None
        self._moved: str | None = None
        self._events: list[Row] = []

    def take(self, record: Row, partitions: list[Row]) -> None:
        """Process a record. `partitions` are the ones in it."""
        if record["record_us"] != self._turn_us:
            self._end_turn()
            self._turn_us = record["record_us"]
        self._last_offset = record["log_offset"]
        source, is_gone = record["source"], record["tombstone"]
        if source == "group_expressions":
            self._expressions[record["expression"]] = [] if is_gone else record["topics"]
        elif source == "consumer_members":
            self._describe(record)
        elif source == "member_epochs" and record["record"] == "current":
            self._move(record, partitions)
        elif source == "member_epochs":
            self._learn_topic(record["member_id"], partitions)
        elif record["record"] == "target":
            self._target_epoch = 0 if is_gone else record["epoch"]
        elif record["record"] == "group" and is_gone:
            self._end(record)
        elif record["record"] == "group":
            self._begin(record)

    def told(self) -> Iterator[Row]:
        """Return all events, after the last record."""
        self._end_turn()
        yield from _joined(self._events)
        if self._is_there:
            topics = {topic for one in self._members.values() for topic in one.info.get("topics") or ()}
            asked = {one.info.get("expression") for one in self._members.values()}
            topics |= {topic for text in asked for topic in self._expressions.get(text or "", ())}
            epoch = self._epoch["epoch"] if self._epoch is not None else None
            yield {
                "what": STANDING,
                "epoch": epoch,
                "log_offset": self._last_offset,
                "topics": sorted(topics),
            }

    def _describe(self, record: Row) -> None:
        if not record["tombstone"]:
            self._members.setdefault(record["member_id"], _Member()).info = record
            return
        member = self._members.pop(record["member_id"], None)
        if member is not None:
            self._let_go(member, member.holds, record, "left")

    def _learn_topic(self, member_id: str, partitions: list[Row]) -> None:
        """Derive a topic's name: a target with one topic belongs to a member with one subscription."""
        member = self._members.get(member_id)
        names = member.info.get("topics") or [] if member is not None else []
        ids = {row["topic_id"] for row in partitions}
        if member is not None and len(names) == len(ids) == 1 and not member.info.get("expression"):
            event = {"what": TOPIC, "topic": names[0], "topic_id": ids.pop()}
            if event not in self._events:
                self._events.append(event)

    def _move(self, record: Row, partitions: list[Row]) -> None:
        member = self._members.setdefault(record["member_id"], _Member())
        held = {(row["topic_id"], row["partition"]) for row in partitions}
        is_gone = record["tombstone"]
        self._let_go(member, member.holds.keys() - held, record, "left" if is_gone else "reassigned")
        member.epoch, member.state = record["epoch"], record["state"]
        self._moved = None if is_gone else member.name(record["member_id"])
        for place in sorted(held - member.holds.keys()):
            member.holds[place] = self._event(HOLDING, record, member) | {
                "topic_id": place[0],
                "partition": place[1],
            }
            self._events.append(member.holds[place])
        for holding in member.holds.values():
            holding["to_epoch"] = record["epoch"]
        is_revoking = member.state == "unrevoked_partitions"
        if member.revocation is not None and not is_revoking:
            self._end_event(member.revocation, record, "left" if is_gone else "revoked")
            member.revocation = None
        if is_revoking and member.revocation is None:
            pending = sum(row["holding"] == "pending_revocation" for row in partitions)
            member.revocation = self._event(REVOCATION, record, member) | {"n_partitions": pending}
            self._events.append(member.revocation)

    def _event(self, what: str, record: Row, member: _Member) -> Row:
        return {
            "what": what,
            "member": member.name(record["member_id"]),
            "member_id": record["member_id"],
            "group_instance_id": member.info.get("group_instance_id"),
            "client_id": member.info.get("client_id"),
            "client_host": member.info.get("client_host"),
            "epoch": record["epoch"],
            "from_us": record["record_us"],
            "log_offset": record["log_offset"],
        }

    def _let_go(self, member: _Member, places: Iterable[Place], record: Row, ended_by: str) -> None:
        for place in list(places):
            self._end_event(member.holds.pop(place), record, ended_by)

    @staticmethod
    def _end_event(event: Row, record: Row, ended_by: str) -> None:
        event |= {"to_us": record["record_us"], "to_log_offset": record["log_offset"], "ended_by": ended_by}

    def _begin(self, record: Row) -> None:
        before, self._is_there = self._epoch, True
        if before is not None and before["epoch"] == record["epoch"] and self._epoch_members:
            before["last_log_offset"] = record["log_offset"]
            return
        now = dict.fromkeys(sorted(member.name(one) for one, member in self._members.items() if member.info))
        is_new = before is None and record["epoch"] <= FIRST_WRITTEN_EPOCH
        known = None if before is None and not is_new else list(self._epoch_members)
        kind = "rebalance" if now else "emptied"
        if before is not None:
            self._end_event(before, record, kind)
        self._epoch = {
            "what": EPOCH,
            "kind": kind,
            "epoch": record["epoch"],
            "from_us": record["record_us"],
            "log_offset": record["log_offset"],
            "last_log_offset": record["log_offset"],
            "previous_log_offset": None if before is None else before["last_log_offset"],
            "n_members": len(now),
            "joined": None if known is None else [name for name in now if name not in known],
            "left": None if known is None else [name for name in known if name not in now],
            "n_stayed": None if known is None else sum(name in now for name in known),
            "unseen": None if before is None else max(0, record["epoch"] - before["epoch"] - 1),
            "was_empty": None if known is None else not known,
        }
        self._epoch_members = now
        self._events.append(self._epoch)

    def _end(self, record: Row) -> None:
        if self._epoch is not None:
            self._end_event(self._epoch, record, "deleted")
        for member in self._members.values():
            self._let_go(member, member.holds, record, "deleted")
        self._members.clear()
        self._expressions.clear()
        self._epoch, self._epoch_members, self._is_there, self._target_epoch = None, {}, False, 0

    def _end_turn(self) -> None:
        """Check whether the epoch converged with the records of one timestamp."""
        epoch, moved, self._moved = self._epoch, self._moved, None
        if epoch is None or "converged_us" in epoch or not self._epoch_members:
            return
        is_converged = self._target_epoch >= epoch["epoch"] and all(
            member.epoch == self._target_epoch and member.state == "stable"
            for member in self._members.values()
        )
        if is_converged:
            epoch |= {"converged_us": self._turn_us, "slowest_member": moved}


def _joined(events: list[Row]) -> Iterator[Row]:
    """Merge the leave and join of a static member that returned under another id at the same time."""
    last: dict[tuple[str, int, str], Row] = {}
    for event in events:
        if event["what"] != HOLDING:
            yield event
            continue
        key = event["topic_id"], event["partition"], event["member"]
        before = last.get(key)
        if before is not None and event["group_instance_id"] and before.get("to_us") == event["from_us"]:
            for name in ("to_us", "to_log_offset", "ended_by", "to_epoch"):
                before[name] = event.get(name)
            continue
        last[key] = event
        yield event
