"""What a group waits for now, what would end that, and what is odd about it."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from coordinator.control.group_removals import GroupRemoval
from coordinator.control.waits.finding import Finding
from coordinator.control.waits.findings import findings
from coordinator.control.waits.sight import GroupSight
from coordinator.control.waits.situation import situation
from coordinator.group.view import GroupView

HintGiver = Callable[[GroupView], list[str]]
"""Gives sentences that say why a group is as it is and what can be done: of rooms that hold or change groups."""


class Explanation(Struct, frozen=True, kw_only=True):
    """Of one group. `state` is null where nothing can be seen of it; `detail` says what it is doing, whom it waits
    for and what would end that; `hints` say what can be done. `removed` is the removal of a group that existed and
    does not exist any more."""

    group_id: str
    seq: int
    state: str | None
    generation_id: int | None
    detail: str
    findings: list[Finding]
    hints: list[str]
    removed: GroupRemoval | None = None


def explanation(sight: GroupSight, hint_givers: Sequence[HintGiver]) -> Explanation:
    """Of a group at a moment."""
    found = findings(sight)
    return Explanation(
        group_id=sight.group_id,
        seq=sight.seq,
        state=sight.state,
        generation_id=None if sight.view is None else sight.view.generation_id,
        detail=situation(sight),
        findings=list(found),
        hints=hints(sight, found, hint_givers),
        removed=sight.removal,
    )


def hints(sight: GroupSight, found: Sequence[Finding], hint_givers: Sequence[HintGiver]) -> list[str]:
    """What can be done: those of other rooms first, which know of what was done on purpose."""
    given = [] if sight.view is None else [hint for giver in hint_givers for hint in giver(sight.view)]
    return list(dict.fromkeys([*given, *(finding.hint for finding in found if finding.hint is not None)]))


def explanation_text(explained: Explanation) -> str:
    """For people."""
    lines = [explained.detail]
    lines += [f"- {finding.sentence}." for finding in explained.findings]
    lines += [f"? {hint}" for hint in explained.hints]
    return "\n".join(lines) + "\n"
