"""The interface of a condition on a group, and conditions on its state, its members and its completed rebalances.

The ledger has an entry for each rebalance, so even a very short one counts. All text is printable.
"""

from typing import Any, Protocol

from msgspec import Struct

from coordinator.control.diagnosis.group_snapshot import GroupSnapshot
from coordinator.control.diagnosis.member_labels import (
    format_list,
    format_name,
    matches_reference,
)
from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.core.message_text import format_seconds
from coordinator.group.group_view import MemberView


class UnmetCondition(Struct, frozen=True, kw_only=True):
    """A condition that does not hold. `condition` is its field in the body, `wanted` the value of that field, and
    `actual` (on the wire "is") the state of the group."""

    condition: str
    wanted: Any
    actual: Any


class Condition(Protocol):
    """A condition on a group. Its texts are printable."""

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        """Return whether the condition holds in a snapshot."""

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        """Describe the present state of a condition that does not hold."""

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        """Explain in a sentence, without a full stop, why the condition does not hold and which member causes
        it; "" if the state of the group explains it."""

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        """Describe the condition that holds, in a few words; "" if the state of the group shows it."""

    def list_topics(self, snapshot: GroupSnapshot) -> frozenset[str]:
        """Return the topics that the condition is about."""

    def compute_due_ms(self, snapshot: GroupSnapshot) -> int | None:
        """Return the milliseconds of group time after which the condition may hold without an event, or None if
        time alone cannot make it hold."""

    @property
    def reads_offsets(self) -> bool:
        """Return whether the condition needs the committed offsets."""


class BaseCondition:
    """Defaults of most conditions."""

    reads_offsets = False

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        return ""

    def list_topics(self, snapshot: GroupSnapshot) -> frozenset[str]:
        return frozenset()

    def compute_due_ms(self, snapshot: GroupSnapshot) -> int | None:
        return None


_MAX_LISTED_MEMBERS = 1_000
"""The maximum number of members in a list of a response."""


def _list_labels(snapshot: GroupSnapshot, members: tuple[MemberView, ...]) -> list[str]:
    return [snapshot.labels.find_label(member.name) for member in members[:_MAX_LISTED_MEMBERS]]


class StateCondition(BaseCondition):
    """The group is in a state."""

    def __init__(self, state: str) -> None:
        self._state = state

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.state == self._state

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        return UnmetCondition(condition="state", wanted=self._state, actual=snapshot.state)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        """Return an empty text, because the state of the group is described anyway."""
        is_over = snapshot.state not in (
            "PreparingRebalance",
            "CompletingRebalance",
            "Assigning",
            "Reconciling",
        )
        return f"It is to be {self._state}" if is_over and snapshot.view is not None else ""


class MemberCountCondition(BaseCondition):
    """The group has at least and at most these numbers of members."""

    def __init__(self, least: int, most: int | None) -> None:
        self._least = least
        self._most = most

    @property
    def _wanted(self) -> str:
        if self._most is None:
            return f"at least {_format_count(self._least)} wanted"
        if self._least == self._most:
            return f"{_format_count(self._least)} wanted"
        least = f"{self._least} to" if self._least else "at most"
        return f"{least} {_format_count(self._most)} wanted"

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        count = len(snapshot.members)
        enough = count >= self._least and (self._most is None or count <= self._most)
        return enough and snapshot.unavailable is None

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        wanted = self._least if self._least == self._most else {"min": self._least, "max": self._most}
        actual = {
            "members": len(snapshot.members),
            "clients": _list_labels(snapshot, snapshot.members),
            "joining": _list_labels(snapshot, snapshot.newcomers),
        }
        return UnmetCondition(condition="members", wanted=wanted, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.unavailable is not None or snapshot.view is None:
            return ""
        if snapshot.view.rebalance is None and not snapshot.newcomers:
            return f"{self._wanted[0].upper()}{self._wanted[1:]}"
        who = (
            f" ({snapshot.labels.format_labels(member.name for member in snapshot.members)})"
            if snapshot.members
            else ""
        )
        joining = ""
        if snapshot.newcomers:
            newcomers = snapshot.labels.format_labels(member.name for member in snapshot.newcomers)
            joining = (
                f"; {newcomers} joined and {'waits' if len(snapshot.newcomers) == 1 else 'wait'} to be let in"
            )
        return f"It has {_format_count(len(snapshot.members))}{who}, {self._wanted}{joining}"


def _format_count(members: int) -> str:
    return "1 member" if members == 1 else f"{members or 'no'} members"


class MembersPresentCondition(BaseCondition):
    """The named clients are members."""

    def __init__(self, references: list[str]) -> None:
        self._references = references

    def _find_missing(self, snapshot: GroupSnapshot) -> list[str]:
        return [
            reference
            for reference in self._references
            if not any(matches_reference(member.name, reference) for member in snapshot.members)
        ]

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.unavailable is None and not self._find_missing(snapshot)

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        actual = {
            "missing": self._find_missing(snapshot),
            "clients": _list_labels(snapshot, snapshot.members),
        }
        return UnmetCondition(condition="clients", wanted=self._references, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.unavailable is not None:
            return ""
        missing = self._find_missing(snapshot)
        joining = [one for one in missing if snapshot.find_members(one)]
        absent = [one for one in missing if one not in joining]
        sentences = []
        if absent:
            sentences.append(
                f"{format_list([format_name(one) for one in absent])} {'is' if len(absent) == 1 else 'are'} "
                f"not in it"
            )
        if joining:
            waits = "waits" if len(joining) == 1 else "wait"
            sentences.append(
                f"{format_list([format_name(one) for one in joining])} joined and {waits} to be let in"
            )
        return "; ".join(sentences)


class MembersAbsentCondition(BaseCondition):
    """The named clients are not members, and no join of theirs is pending."""

    def __init__(self, references: list[str]) -> None:
        self._references = references

    def _find_present(self, snapshot: GroupSnapshot) -> list[MemberView]:
        return [
            member
            for member in snapshot.all_members
            if any(matches_reference(member.name, reference) for reference in self._references)
        ]

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.unavailable is None and not self._find_present(snapshot)

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        actual = {"there": _list_labels(snapshot, tuple(self._find_present(snapshot)))}
        return UnmetCondition(condition="absent", wanted=self._references, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        present = self._find_present(snapshot)
        verb = "is" if len(present) == 1 else "are"
        return (
            f"{snapshot.labels.format_labels(member.name for member in present)} {verb} still in it"
            if present
            else ""
        )


class GenerationCondition(BaseCondition):
    """The group has this generation or a later one."""

    def __init__(self, least: int) -> None:
        self._least = least

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.view is not None and snapshot.view.generation_id >= self._least

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        actual = None if snapshot.view is None else snapshot.view.generation_id
        return UnmetCondition(condition="generation", wanted={"min": self._least}, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.view is None:
            return ""
        return f"It is in generation {snapshot.view.generation_id}, {self._least} wanted"


class QuietCondition(BaseCondition):
    """The group has not rebalanced for a duration, in group time."""

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        quiet_ms = snapshot.quiet_ms
        return quiet_ms is not None and quiet_ms >= self._quiet_ms

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        return UnmetCondition(condition="quiet", wanted=self._quiet_ms, actual=snapshot.quiet_ms)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        quiet_ms = snapshot.quiet_ms
        if quiet_ms is None:
            return ""
        return (
            f"Its last rebalance ended {format_seconds(quiet_ms)} ago, {format_seconds(self._quiet_ms)} "
            f"without one wanted"
        )

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        return f"no rebalance for {format_seconds(snapshot.quiet_ms or 0)}"

    def compute_due_ms(self, snapshot: GroupSnapshot) -> int | None:
        quiet_ms = snapshot.quiet_ms
        return None if quiet_ms is None else max(0, self._quiet_ms - quiet_ms)


_MAX_LISTED_REBALANCES = 20


class RebalancedCondition(BaseCondition):
    """The ledger has a rebalance that ended after an event number, optionally with a cause and a client."""

    def __init__(self, cause: str | None, client: str | None, after: int) -> None:
        self._cause = cause
        self._client = client
        self._after = after
        self._checked_seq = after
        self._found: LedgerEntry | None = None

    def _matches_entry(self, entry: LedgerEntry) -> bool:
        if self._cause not in (None, entry.cause):
            return False
        if self._client is None:
            return True
        actor = entry.actor
        return actor is not None and self._client in (
            actor.client_id,
            actor.group_instance_id,
            actor.member_id,
        )

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        """Whether the ledger has such a rebalance. A match is kept, and each entry is checked once."""
        if self._found is None:
            entries = snapshot.list_rebalances(self._checked_seq)
            self._found = next(filter(self._matches_entry, entries), None)
            if entries:
                self._checked_seq = entries[-1].seq
        return self._found is not None

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        wanted = {"cause": self._cause, "client": self._client, "after": self._after}
        actual = [
            {
                "seq": entry.seq,
                "cause": entry.cause,
                "client": None if entry.actor is None else entry.actor.client_id,
            }
            for entry in snapshot.list_rebalances(self._after)[-_MAX_LISTED_REBALANCES:]
        ]
        return UnmetCondition(condition="rebalanced", wanted=wanted, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        wanted = f"with the cause {self._cause}" if self._cause is not None else ""
        if self._client is not None:
            wanted += f"{' ' if wanted else ''}by {format_name(self._client)}"
        since = f" after event {self._after}" if self._after >= 0 else ""
        others = snapshot.list_rebalances(self._after)
        text = f"No rebalance {wanted}{' ' if wanted else ''}has ended{since}"
        if others:
            text += (
                f"; the last that did was generation {others[-1].generation_id} ({_format_entry(others[-1])})"
            )
        return text

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        entry = self._found
        assert entry is not None
        return f"rebalanced to generation {entry.generation_id} ({_format_entry(entry)})"


def _format_entry(entry: LedgerEntry) -> str:
    by = "" if entry.actor is None else f", by {format_name(entry.actor.client_id)}"
    return f"{entry.cause}{by}"
