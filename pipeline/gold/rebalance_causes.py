"""Derive `causes`: the cause of each rebalance of every group, the clients involved, and the moved partitions.

Group records are few compared with commits, so this module processes a group's records one by one, without Spark.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from pipeline.gold.causes import JOINED_AGAIN, PARTITIONS, Course, Place, Standing, client_name, moves_of
from pipeline.gold.group_kinds import CLASSIC, CONSUMER
from pipeline.gold.group_records import GroupRecords, Row
from pipeline.table import Table

REBALANCE_CAUSES: Final = Table.declare(
    "rebalance_causes",
    """
    log_partition int
    group string
    group_kind string
    generation int
    record_ts timestamp
    cause string
    came array<string>
    went array<string>
    came_back array<string>
    protocol string
    n_members int
    n_partitions int
    moved int
    needless int
    fewest int
    most int
    idle int
    log_offset bigint
    """,
)
MIGRATED: Final = "migrated"
_FIRST_EPOCH: Final = 2
"""The first epoch of a consumer group with a record; epoch 1 has none."""

_TABLES: Final = (
    "group_generations", "members", "assignments", "group_epochs", "consumer_members", "member_epochs",
    "member_partitions",
)  # fmt: skip


def rebalance_causes(history: GroupRecords) -> list[Row]:
    """Return one row for each rebalance of a group and for each departure of its last member."""
    rows = [
        row
        | {
            "source": name,
            "record_us": row["record_ts"],
            "topics": row.get("subscribed_topics"),
            "expression": row.get("subscribed_expression"),
            "generation": row.get("epoch", row.get("generation")),
            "topic": row.get("topic", row.get("topic_id")),
        }
        for name in _TABLES
        for row in history.table(name)
    ]
    return [history.key | row | {"record_ts": row["record_us"]} for row in causes(rows)]


def causes(rows: Iterable[Row]) -> list[Row]:
    """Return the rebalances of one group.

    Args:
        rows: the group's rows of the silver tables, each with its table in `source` and its time in `record_us`.

    Returns rows of `rebalance_causes` without the group's name and with the time in `record_us`.
    """
    group = _Group()
    place = itemgetter("log_offset")
    for _, some in groupby(sorted(rows, key=place), key=place):
        group.take(list(some))
    return group.told


class _Group:
    """The state of a group after the records read so far."""

    def __init__(self) -> None:
        self.told: list[Row] = []
        self._course = Course()
        self._kind: str | None = None
        self._ended_us: int | None = None
        self._generation: int | None = None
        self._members: dict[str, Row] = {}
        """The members of a consumer group by member id."""
        self._targets: dict[str, frozenset[Place]] = {}

    def take(self, found: list[Row]) -> None:
        """Process the rows of a record."""
        by_source: dict[str, list[Row]] = {}
        for row in found:
            by_source.setdefault(row["source"], []).append(row)
        for record in by_source.get("group_generations", ()):
            self._classic(record, by_source.get("members", []), by_source.get("assignments", []))
        for record in by_source.get("consumer_members", ()):
            self._describe(record)
        for record in by_source.get("member_epochs", ()):
            if record["record"] == "target":
                self._aim(record, by_source.get("member_partitions", []))
        for record in by_source.get("group_epochs", ()):
            self._epoch(record)

    # Classic groups

    def _classic(self, record: Row, members: list[Row], assignments: list[Row]) -> None:
        if record["tombstone"]:
            self._ended_us = record["record_us"]
            return
        self._begins(record, CLASSIC)
        is_nameless = record["generation"] == 0 and not record["protocol_type"]
        if not record["n_members"] and is_nameless:
            self._course.ended()
            return
        standing = _standing(record, members, assignments)
        before = self._course.standing
        if before is not None and before.clients and self._generation == record["generation"]:
            self._course.standing = self._course.settled = (
                standing  # a static member replaced another instance
            )
            return
        self._tell(record, CLASSIC, self._course.rebalanced(standing), len(members))

    # Consumer groups

    def _describe(self, record: Row) -> None:
        if record["tombstone"]:
            self._members.pop(record["member_id"], None)
            self._targets.pop(record["member_id"], None)
        else:
            self._members[record["member_id"]] = record

    def _aim(self, record: Row, partitions: list[Row]) -> None:
        if record["tombstone"]:
            self._targets.pop(record["member_id"], None)
        else:
            self._targets[record["member_id"]] = frozenset(
                (row["topic"], row["partition"]) for row in partitions
            )

    def _epoch(self, record: Row) -> None:
        if record["record"] == "target" and not record["tombstone"]:
            self._reach(record["generation"])
        elif record["record"] == "group" and record["tombstone"]:
            self._ended_us = record["record_us"]
            self._members.clear()
            self._targets.clear()
        elif record["record"] == "group":
            self._begins(record, CONSUMER)
            if self._generation == record["generation"]:
                return
            settled = self._course.settled
            row = self._course.rebalanced(self._consumers(None))
            self._course.settled = settled  # until the target of this epoch is complete
            if row["cause"] == JOINED_AGAIN:
                row["cause"] = PARTITIONS  # the only other cause of a new epoch
            self._tell(record, CONSUMER, row | moves_of(None, Standing({})), len(self._members))

    def _consumers(self, holds: dict[str, frozenset[Place]] | None) -> Standing:
        names = {member_id: _name(row) for member_id, row in self._members.items()}
        return Standing(
            {names[member_id]: _client(row) for member_id, row in self._members.items()},
            {
                names[member_id]: frozenset([*(row["topics"] or ()), f"/{row['expression'] or ''}/"])
                for member_id, row in self._members.items()
            },
            None
            if holds is None
            else {names[member_id]: holds[member_id] for member_id in holds.keys() & names},
        )

    def _reach(self, epoch: int) -> None:
        """A target is complete: its moves belong to its epoch."""
        if not self.told or self.told[-1]["group_kind"] != CONSUMER or self.told[-1]["generation"] > epoch:
            return
        now = self._consumers(self._targets)
        before = self._course.settled
        self.told[-1] |= moves_of(before if before is not None and before.holds is not None else None, now)
        self._course.settled = now

    # Both

    def _begins(self, record: Row, kind: str) -> None:
        """Return whether a record is the first of an existing group or of a new group with the same name."""
        if self._ended_us is not None and (self._kind == kind or self._ended_us != record["record_us"]):
            self._course.ended()
            self._generation = None
        elif self._kind is None:
            self._course.is_new = record["generation"] <= (1 if kind == CLASSIC else _FIRST_EPOCH)
        self._ended_us = None

    def _tell(self, record: Row, kind: str, row: Row, n_members: int) -> None:
        if (
            self._kind not in (None, kind)
            and self._course.standing is not None
            and self._generation is not None
        ):
            row["cause"] = MIGRATED
            self._course.settled = None  # one type of record has topic names, the other topic ids
        self._kind, self._generation = kind, record["generation"]
        told = {"group_kind": kind, "n_members": n_members, "protocol": record.get("protocol")}
        told |= {name: record[name] for name in ("generation", "record_us", "log_offset")}
        self.told.append(told | row)


def _standing(record: Row, members: list[Row], assignments: list[Row]) -> Standing:
    names = {row["member_id"]: _name(row) for row in members}
    holds: dict[str, set[Place]] = {name: set() for name in names.values()}
    for row in assignments:
        holds[names[row["member_id"]]].add((row["topic"], row["partition"]))
    is_readable = record["protocol_type"] == "consumer" and all(row["topics"] is not None for row in members)
    return Standing(
        {_name(row): _client(row) for row in members},
        {_name(row): None if row["topics"] is None else frozenset(row["topics"]) for row in members},
        {name: frozenset(places) for name, places in holds.items()} if is_readable else None,
        record["protocol"],
    )


def _name(row: Row) -> str:
    """Return the instance id of a static member, else the member id."""
    return str(row["group_instance_id"] or row["member_id"])


def _client(row: Row) -> str:
    return client_name(row["client_id"], row["client_host"])
