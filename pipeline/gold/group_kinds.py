"""The periods in which a group used the classic or the consumer group protocol (KIP-848).

When a group changes its protocol, the coordinator writes the tombstone of one kind and the first record of the
other together, with the same timestamp. A group that was deleted and created again later was not migrated.
"""

from dataclasses import dataclass
from typing import Final

from pipeline.gold.group_records import DELETED, GroupRecords, Row, by_log_offset
from pipeline.table import Table

GROUP_KINDS: Final = Table.declare(
    "group_kinds",
    """
    log_partition int
    group string
    kind string
    from_ts timestamp
    to_ts timestamp
    migrated_from string
    ended_by string
    from_log_offset bigint
    to_log_offset bigint
    """,
)

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
MIGRATED: Final = "migrated"


def group_kinds(history: GroupRecords) -> list[Row]:
    """Return one row for each uninterrupted period of one kind in one life of the group."""
    records = [(CLASSIC, row) for row in history.table("group_generations")]
    records += [(CONSUMER, row) for row in history.table("group_epochs") if row["record"] == "group"]
    lives: list[_Life] = []
    before: tuple[str, Row] | None = None
    for kind, row in sorted(records, key=lambda found: by_log_offset(found[1])):
        if row["tombstone"]:
            if lives and lives[-1].end is None:
                lives[-1].end = row
        elif before is None or before[1]["tombstone"] or before[0] != kind:
            lives.append(_Life(kind, row))
        before = kind, row
    return [
        history.key | _stretch(life, previous, following)
        for previous, life, following in zip([None, *lives], lives, [*lives[1:], None], strict=False)
    ]


@dataclass(slots=True)
class _Life:
    kind: str
    begin: Row
    end: Row | None = None
    """The tombstone."""

    def is_migrated_to(self, following: "_Life") -> bool:
        """Return whether the group continues as another kind."""
        is_at_once = self.end is None or self.end["record_ts"] == following.begin["record_ts"]
        return self.kind != following.kind and is_at_once


def _stretch(life: _Life, previous: _Life | None, following: _Life | None) -> Row:
    end = life.end or (None if following is None else following.begin)
    is_migrated = following is not None and life.is_migrated_to(following)
    return {
        "kind": life.kind,
        "from_ts": life.begin["record_ts"],
        "to_ts": None if end is None else end["record_ts"],
        "migrated_from": previous.kind if previous is not None and previous.is_migrated_to(life) else None,
        "ended_by": MIGRATED if is_migrated else None if end is None else DELETED,
        "from_log_offset": life.begin["log_offset"],
        "to_log_offset": None if end is None else end["log_offset"],
    }
