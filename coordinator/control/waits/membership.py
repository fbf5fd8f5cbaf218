"""Conditions on the state of a group and on who is in it."""

from coordinator.control.waits.condition import BaseCondition, Unmet
from coordinator.control.waits.labels import goes_by, named, seconds, some
from coordinator.control.waits.sight import GroupSight
from coordinator.group.view import MemberView

_MOST_LISTED = 1_000
"""Members in a list of an answer."""


def _labels(sight: GroupSight, members: tuple[MemberView, ...]) -> list[str]:
    return [sight.labels.of(member.name) for member in members[:_MOST_LISTED]]


class InState(BaseCondition):
    """The group is in a state."""

    def __init__(self, state: str) -> None:
        self._state = state

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.state == self._state

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        return Unmet(condition="state", wanted=self._state, is_=sight.state)

    def why(self, sight: GroupSight) -> str:
        """What the group waits for is said anyway."""
        is_over = sight.state not in (
            "PreparingRebalance",
            "CompletingRebalance",
            "Assigning",
            "Reconciling",
        )
        return f"It is to be {self._state}" if is_over and sight.view is not None else ""


class MemberCount(BaseCondition):
    """So many members, at least and at most."""

    def __init__(self, least: int, most: int | None) -> None:
        self._least = least
        self._most = most

    @property
    def _wanted(self) -> str:
        if self._most is None:
            return f"at least {_count(self._least)} wanted"
        if self._least == self._most:
            return f"{_count(self._least)} wanted"
        least = f"{self._least} to" if self._least else "at most"
        return f"{least} {_count(self._most)} wanted"

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        count = len(sight.members)
        enough = count >= self._least and (self._most is None or count <= self._most)
        return enough and sight.unavailable is None

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        wanted = self._least if self._least == self._most else {"min": self._least, "max": self._most}
        is_ = {
            "members": len(sight.members),
            "clients": _labels(sight, sight.members),
            "joining": _labels(sight, sight.newcomers),
        }
        return Unmet(condition="members", wanted=wanted, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.unavailable is not None or sight.view is None:
            return ""
        if sight.view.rebalance is None and not sight.newcomers:
            return f"{self._wanted[0].upper()}{self._wanted[1:]}"
        who = f" ({sight.labels.all(member.name for member in sight.members)})" if sight.members else ""
        joining = ""
        if sight.newcomers:
            newcomers = sight.labels.all(member.name for member in sight.newcomers)
            joining = (
                f"; {newcomers} joined and {'waits' if len(sight.newcomers) == 1 else 'wait'} to be let in"
            )
        return f"It has {_count(len(sight.members))}{who}, {self._wanted}{joining}"


def _count(members: int) -> str:
    return "1 member" if members == 1 else f"{members or 'no'} members"


class Present(BaseCondition):
    """Clients that are members."""

    def __init__(self, references: list[str]) -> None:
        self._references = references

    def _missing(self, sight: GroupSight) -> list[str]:
        return [
            reference
            for reference in self._references
            if not any(goes_by(member.name, reference) for member in sight.members)
        ]

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.unavailable is None and not self._missing(sight)

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        is_ = {"missing": self._missing(sight), "clients": _labels(sight, sight.members)}
        return Unmet(condition="clients", wanted=self._references, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.unavailable is not None:
            return ""
        missing = self._missing(sight)
        joining = [one for one in missing if sight.fitting(one)]
        absent = [one for one in missing if one not in joining]
        said = []
        if absent:
            said.append(
                f"{some([named(one) for one in absent])} {'is' if len(absent) == 1 else 'are'} not in it"
            )
        if joining:
            waits = "waits" if len(joining) == 1 else "wait"
            said.append(f"{some([named(one) for one in joining])} joined and {waits} to be let in")
        return "; ".join(said)


class Absent(BaseCondition):
    """Clients that are no members, and are not about to be."""

    def __init__(self, references: list[str]) -> None:
        self._references = references

    def _there(self, sight: GroupSight) -> list[MemberView]:
        return [
            member
            for member in sight.all_members
            if any(goes_by(member.name, reference) for reference in self._references)
        ]

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.unavailable is None and not self._there(sight)

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        is_ = {"there": _labels(sight, tuple(self._there(sight)))}
        return Unmet(condition="absent", wanted=self._references, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        there = self._there(sight)
        verb = "is" if len(there) == 1 else "are"
        return f"{sight.labels.all(member.name for member in there)} {verb} still in it" if there else ""


class GenerationReached(BaseCondition):
    """A generation, or a later one."""

    def __init__(self, least: int) -> None:
        self._least = least

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.view is not None and sight.view.generation_id >= self._least

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        is_ = None if sight.view is None else sight.view.generation_id
        return Unmet(condition="generation", wanted={"min": self._least}, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.view is None:
            return ""
        return f"It is in generation {sight.view.generation_id}, {self._least} wanted"


class Quiet(BaseCondition):
    """No rebalance for so long, in group time."""

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        quiet_ms = sight.quiet_ms
        return quiet_ms is not None and quiet_ms >= self._quiet_ms

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        return Unmet(condition="quiet", wanted=self._quiet_ms, is_=sight.quiet_ms)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        quiet_ms = sight.quiet_ms
        if quiet_ms is None:
            return ""
        return (
            f"Its last rebalance ended {seconds(quiet_ms)} ago, {seconds(self._quiet_ms)} without one wanted"
        )

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        return f"no rebalance for {seconds(sight.quiet_ms or 0)}"

    def due_ms(self, sight: GroupSight) -> int | None:
        """See `Condition`."""
        quiet_ms = sight.quiet_ms
        return None if quiet_ms is None else max(0, self._quiet_ms - quiet_ms)
