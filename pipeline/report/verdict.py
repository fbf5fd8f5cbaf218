"""The verdict: the problems, the worst first, each in a sentence with its cause, its start and its cost."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, NamedTuple

from pipeline.report.lag_troubles import RISING, UNATTENDED
from pipeline.report.next_steps import NextStep, find_next_step
from pipeline.report.troubles import ABANDONED, IDLE, LOST, RESTLESS
from pipeline.report.words import count, cut, duration, listed, moment, number, share

Row = dict[str, Any]
_NAME: Final = 60
MOST_REGULAR: Final = 2
"""The most regularly leaving clients of a group that are not reported as a rebalance storm."""


class Severity(IntEnum):
    """The severity of a finding."""

    NOTE = 1
    """Not urgent."""
    WARNING = 2
    """Records are processed late or twice."""
    CRITICAL = 3
    """Records are not processed, or are lost."""


class Finding(NamedTuple):
    """One or two sentences about one group, and the next step. `weight` ranks findings of the same severity."""

    severity: Severity
    kind: str
    group: str
    text: str
    weight: float

    @property
    def next_step(self) -> NextStep:
        """The action that helps."""
        return find_next_step(self.kind, self.group)


class Context(NamedTuple):
    """The reference values of sentences: the present time, the total lag, and the length of the period."""

    now: datetime
    lag: int | None
    period_s: float


def verdict(troubles: list[Row], context: Context) -> list[Finding]:
    """Return the findings for rows of `troubles`, the worst first."""
    known = [row for row in troubles if row["kind"] in _TELLERS]
    told = [_TELLERS[row["kind"]](row, context) for row in known if not _is_said(row, known)]
    return sorted(told, key=lambda each: (-each.severity, -each.weight, each.group, each.kind))


_STATE_LAG: Final = (ABANDONED, "stuck_partition")
"""Findings that state the lag of their group."""


def _is_said(row: Row, others: list[Row]) -> bool:
    """Return whether another finding of the group contains the cause of this one. A few clients that leave
    regularly cause their group's storm; if all of many clients do, the storm describes it better.
    """
    of_group = {other["kind"]: other for other in others if other["group"] == row["group"]}
    if row["kind"] in (UNATTENDED, RISING):
        return not of_group.keys().isdisjoint(_STATE_LAG)
    regular, restless = of_group.get("regular_leaving"), row if row["kind"] in RESTLESS else None
    storm = next((of_group[kind] for kind in RESTLESS if kind in of_group), None)
    if regular is None or storm is None:
        return False
    are_few = regular["n"] <= MOST_REGULAR
    return (restless is not None and are_few) or (row is regular and not are_few)


def _name(row: Row, field: str = "group") -> str:
    return cut(row[field], _NAME)


def _since(row: Row, context: Context) -> str:
    past_s = (context.now - row["ts"]) / timedelta(seconds=1)
    return f"{moment(row['ts'])}" + (f" ({duration(past_s)})" if past_s > 0 else "")


def _abandoned(row: Row, context: Context) -> Finding:
    lag = row["amount"]
    part = f", {share(lag, context.lag)} of all lag" if context.lag else ""
    last = listed([cut(each["name"], _NAME) for each in row["clients"] or () if each is not None])
    who = f", when {last} left" if last else ""
    before, waiting = row["previous_offset"], count(lag, "message")
    behind = f"is {waiting} behind" if before is None else f"its lag rose from {number(before)} to {waiting}"
    text = f"{_name(row)} has had no member since {_since(row, context)}{who}, and {behind}{part}."
    return Finding(Severity.CRITICAL, row["kind"], row["group"], text, lag)


def _lost(row: Row, _context: Context) -> Finding:
    text = f"{count(row['amount'], 'message was', 'messages were')} deleted before {_name(row)} read them."
    return Finding(Severity.CRITICAL, row["kind"], row["group"], text[0].upper() + text[1:], row["amount"])


def _stuck(row: Row, context: Context) -> Finding:
    n = row["n_partitions"]
    where = f"{_name(row, 'topic')} {number(row['partition'])}" + (
        f" and {count(n - 1, 'more partition')}" if n > 1 else ""
    )
    text = (
        f"{_name(row)} has been stuck on {where} since {_since(row, context)}: "
        f"{count(row['amount'], 'message waits', 'messages wait')} there ({cut(row['detail'], 120)})."
    )
    return Finding(Severity.CRITICAL, row["kind"], row["group"], text, row["amount"])


def _unattended(row: Row, context: Context) -> Finding:
    waiting = count(row["amount"], "message waits", "messages wait")
    needed = (
        f"it would need {duration(row['most'])} to read them at its speed before"
        if row["most"] is not None
        else "it has read nothing in this period"
    )
    text = f"{_name(row)} has no member since {_since(row, context)}, and {waiting} for it; {needed}."
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"])


def _rising(row: Row, context: Context) -> Finding:
    lag = f"from {number(row['previous_offset'])} to {count(row['amount'], 'message')}"
    text = (
        f"{_name(row)} does not catch up: its lag on {_name(row, 'topic')} has risen {lag} since "
        f"{_since(row, context)}. It would need {duration(row['most'])} to read them without new ones."
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"])


def _expiring(row: Row, _context: Context) -> Finding:
    text = (
        f"The offsets of {_name(row)} for {count(row['n_partitions'], 'topic')} expire by "
        f"{moment(row['until_ts'])}, because {cut(row['detail'], 120)}. Later consumers of the group begin as "
        "auto.offset.reset says."
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"] or 0)


def _who(row: Row) -> str:
    clients = [each for each in row["clients"] or () if each is not None]
    if not clients:
        return ""
    names = listed([f"{cut(each['name'], _NAME)} ({count(each['n'], 'time')})" for each in clients])
    ids = row["n_ids"] or 0
    behind = f" under {number(ids)} member ids" if ids > row["n_clients"] else ""
    return f" {count(row['n_clients'], 'client').capitalize()}{behind} joined and left: {names}."


def _storm(row: Row, _context: Context) -> Finding:
    pause = row["longest_pause_ms"]
    cost = f" The longest time without a commit around one was {duration(pause / 1000)}." if pause else ""
    text = (
        f"{_name(row)} rebalanced {count(row['amount'], 'time')} between {moment(row['ts'])} and "
        f"{moment(row['until_ts'])}.{_who(row)}{cost}"
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"])


def _flapping(row: Row, _context: Context) -> Finding:
    text = (
        f"{_name(row)} lost its last member {count(row['amount'], 'time')} between {moment(row['ts'])} and "
        f"{moment(row['until_ts'])}.{_who(row)}"
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"])


def _regular(row: Row, context: Context) -> Finding:
    n = row["n"]
    who = f"{_name(row, 'member')}" + (f" and {count(n - 1, 'more client')}" if n > 1 else "")
    text = (
        f"{who} left {_name(row)} every {duration(row['most'])} between {moment(row['ts'])} and "
        f"{moment(row['until_ts'])}: a sign of max.poll.interval.ms. Other members process its records again."
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, context.period_s / max(row["most"], 1))


def _slow(row: Row, _context: Context) -> Finding:
    text = (
        f"{_name(row, 'member')} of {_name(row)} revoked partitions slowly "
        f"({count(row['n'], 'time')}, {duration(row['most'])} at most), and others waited for them."
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["most"])


def _rewind(row: Row, _context: Context) -> Finding:
    text = (
        f"Offsets of {_name(row)} went back {count(row['n'], 'time')}, {count(row['most'], 'offset')} at most, on "
        f"{_name(row, 'topic')} {number(row['partition'])}: the group reads the records in between again."
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"])


def _unowned(row: Row, _context: Context) -> Finding:
    text = (
        f"{_name(row)} committed {count(row['amount'], 'time')} for {count(row['n_partitions'], 'partition')} that "
        "no member owned: two consumers process the same messages, or a commit was late."
    )
    return Finding(Severity.WARNING, row["kind"], row["group"], text, row["amount"])


def _mixed(row: Row, _context: Context) -> Finding:
    text = (
        f"{_name(row)} commits offsets of the same partitions in transactions and outside; exactly-once processing "
        "needs all of them in transactions."
    )
    return Finding(Severity.NOTE, row["kind"], row["group"], text, row["amount"] or 0)


def _idle(row: Row, _context: Context) -> Finding:
    text = (
        f"{number(row['amount'])} of {count(row['most'], 'member')} of {_name(row)} "
        f"{'has' if row['amount'] == 1 else 'have'} no partition: there are only "
        f"{count(row['n_partitions'], 'partition')}."
    )
    return Finding(Severity.NOTE, row["kind"], row["group"], text, row["amount"])


_TELLERS: Final[dict[str, Callable[[Row, Context], Finding]]] = {
    ABANDONED: _abandoned,
    LOST: _lost,
    "stuck_partition": _stuck,
    UNATTENDED: _unattended,
    RISING: _rising,
    "expiring_offsets": _expiring,
    "rebalance_storm": _storm,
    "flapping_group": _flapping,
    "regular_leaving": _regular,
    "slow_revocation": _slow,
    "offset_rewind": _rewind,
    "outside_ownership": _unowned,
    "mixed_commits": _mixed,
    IDLE: _idle,
}
KINDS: Final = frozenset(_TELLERS)
"""All kinds of problems that have a sentence."""
