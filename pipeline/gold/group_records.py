"""The records of one group, in log order, and the meaning of each record of a classic group.

Kafka writes a group record when a leader sends an assignment, when the last member leaves, when a static
member takes over from its predecessor, and when a group is created; a tombstone when it is deleted. A
rebalance without an assignment leaves no record, only a gap in the numbers of generations. The kind of a
record follows from its neighbours:

    assigned  members hold partitions; with the generation of the record before, a static member was replaced
    emptied   no member is left (the generation increases)
    created   a new group: generation 0, protocol type "", no members. It is not a rebalance, and the earlier
    numbers
              belong to another life of the group
    deleted   a tombstone

Neighbours of the same generation and kind make up a *run*. A run of `assigned` or `emptied` records is one
generation.

Times of rows are microseconds since 1970. Source: Kafka's `GroupCoordinatorRecordHelpers`, `ClassicGroup`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

ASSIGNED: Final = "assigned"
EMPTIED: Final = "emptied"
CREATED: Final = "created"
DELETED: Final = "deleted"

GROUP: Final = ("log_partition", "group")

Row = dict[str, Any]
by_log_offset: Final = itemgetter("log_offset")


def identity(member: Row) -> str:
    """Return the name of a member across restarts: its instance id if it is static, else its member id."""
    return str(member["group_instance_id"] or member["member_id"])


def group_key(row: Row) -> Row:
    """Return the columns that name a group."""
    return {name: row[name] for name in GROUP}


@dataclass
class GroupRecords:
    """All records of one group. `rows`: those of the silver tables of groups, by the table's name."""

    log_partition: int
    group: str
    rows: Mapping[str, list[Row]] = field(default_factory=dict)

    @property
    def key(self) -> Row:
        """The columns that name the group."""
        return {"log_partition": self.log_partition, "group": self.group}

    def table(self, name: str) -> list[Row]:
        """Return the rows of a silver table, in log order."""
        return self.rows.get(name, [])

    @cached_property
    def classic(self) -> list[Row]:
        """The records of the classic protocol, each with `kind`, `run` (the number of its run), and
        `next_log_offset`, `next_ts`, `next_kind` of the record after it."""
        return _classify(self.table("group_generations"))

    @cached_property
    def members(self) -> dict[int, list[Row]]:
        """The members of each classic record, by its log offset."""
        return _by_log_offset(self.table("members"))

    @cached_property
    def assignments(self) -> dict[int, list[Row]]:
        """The assigned partitions of each classic record, by its log offset."""
        return _by_log_offset(self.table("assignments"))


def group_histories(records: Mapping[str, list[Row]]) -> list[GroupRecords]:
    """Divide rows of the silver tables of groups, by the table's name, into groups."""
    groups: dict[tuple[int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for name, rows in records.items():
        for row in sorted(rows, key=by_log_offset):
            groups[row["log_partition"], row["group"]][name].append(row)
    return [GroupRecords(*key, rows) for key, rows in sorted(groups.items())]


def _by_log_offset(rows: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["log_offset"]].append(row)
    return found


def _kind(record: Row) -> str:
    if record["tombstone"]:
        return DELETED
    if record["n_members"]:
        return ASSIGNED
    is_nameless = record["generation"] == 0 and not record["protocol_type"]
    return CREATED if is_nameless else EMPTIED


def _classify(records: list[Row]) -> list[Row]:
    found: list[Row] = []
    for record in records:
        row = record | {"kind": _kind(record), "next_log_offset": None, "next_ts": None, "next_kind": None}
        before = found[-1] if found else None
        if before is None:
            row["run"] = 1
        else:
            is_continued = (
                row["kind"] in (ASSIGNED, EMPTIED)
                and before["kind"] == row["kind"]
                and before["generation"] == row["generation"]
            )
            row["run"] = before["run"] + (not is_continued)
            before |= {
                "next_log_offset": row["log_offset"],
                "next_ts": row["record_ts"],
                "next_kind": row["kind"],
            }
        found.append(row)
    return found
