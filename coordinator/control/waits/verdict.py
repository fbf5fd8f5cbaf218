"""What comes of a wait: the group is as somebody wanted it, or a Problem whose sentence says why it is not."""

from collections.abc import Sequence

from msgspec import Struct

from coordinator.control.group_removals import removal_value, why_absent
from coordinator.control.groups.description import GroupSummary
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.waits.condition import Condition
from coordinator.control.waits.explanation import HintGiver, hints
from coordinator.control.waits.finding import Finding
from coordinator.control.waits.findings import findings
from coordinator.control.waits.labels import seconds
from coordinator.control.waits.membership import MemberCount, Present
from coordinator.control.waits.ownership import Owned
from coordinator.control.waits.sight import NO_GROUP_STATE, GroupSight
from coordinator.control.waits.situation import situation

_MOST_FINDINGS = 5


class Met(Struct, frozen=True, kw_only=True):
    """The group is as it was to be, and what that says is durable. `seq` is the number of the last event by then,
    for `after` of a later wait, and `mark` that of the process ("`mark`.`seq`"); `detail` is a sentence."""

    waited_ms: int
    seq: int
    group: GroupSummary
    detail: str
    mark: str = ""


def met(sight: GroupSight, conditions: Sequence[Condition], waited_ms: int) -> Met:
    """All conditions held at a moment."""
    view = sight.view
    summary = GroupSummary(
        group_id=sight.group_id,
        type="classic" if view is None else view.type.value,
        state=sight.state or NO_GROUP_STATE,
        protocol_type=None if view is None else view.protocol_type,
        generation_id=-1 if view is None else view.generation_id,
        members=len(sight.members),
    )
    return Met(
        waited_ms=waited_ms,
        seq=sight.seq,
        group=summary,
        detail=_met_words(sight, conditions, summary, waited_ms),
    )


def met_text(answer: Met) -> str:
    """For people."""
    return f"{answer.detail}\n"


def not_met(
    sight: GroupSight,
    conditions: Sequence[Condition],
    waited_ms: int | None,
    joins_before: int,
    hint_givers: Sequence[HintGiver],
) -> Problem:
    """Some condition does not hold at a moment. In: how long that was waited for, None where it was only looked at;
    how many JoinGroups had come before."""
    wrong = [condition for condition in conditions if not condition.holds(sight)]
    found = sight.once(findings)
    after = "" if waited_ms is None else f" after {seconds(waited_ms)}"
    relevant = _relevant(sight, wrong, found)
    fields: dict[str, object] = {
        "seq": sight.seq,
        "unmet": [
            {"condition": unmet.condition, "wanted": unmet.wanted, "is": unmet.is_}
            for unmet in (condition.unmet(sight) for condition in wrong)
        ],
        "hints": hints(sight, [one for one in found if one.blocks or one in relevant], hint_givers),
    }
    if sight.removal is not None:
        fields["removed"] = removal_value(sight.removal)
    said = [
        sight.once(situation),
        *(f"{why}." for why in (condition.why(sight) for condition in wrong) if why),
    ]
    if waited_ms is not None and _wants_members(wrong) and sight.remembered.joins == joins_before:
        said.append("No JoinGroup arrived meanwhile.")
    said += [f"{finding.sentence}." for finding in relevant]
    return Problem(
        ProblemKind.NOT_MET, f"{sight.name} is not so{after}", " ".join(dict.fromkeys(said)), fields
    )


def not_durable(sight: GroupSight, waited_ms: int) -> Problem:
    """The group is so, and the disk did not confirm it."""
    is_so = f"All that was asked for is so, but the disk has not confirmed it in {seconds(waited_ms)}."
    detail = f"{situation(sight)} {is_so}"
    title = f"{sight.name} is not so for certain after {seconds(waited_ms)}"
    return Problem(ProblemKind.NOT_MET, title, detail, {"seq": sight.seq, "unmet": [], "hints": []})


def _relevant(sight: GroupSight, wrong: Sequence[Condition], found: Sequence[Finding]) -> list[Finding]:
    """What keeps the group from working, and what is about the topics that are asked for and not so, as far as
    neither the situation nor a condition has said it."""
    said = {"pending"}
    if any(isinstance(condition, Owned) for condition in wrong):
        said |= {"unowned", "owned_twice", "no_such_topic"}
    topics: frozenset[str] = frozenset().union(*(condition.topics(sight) for condition in wrong))
    relevant = [
        finding
        for finding in found
        if finding.kind not in said
        and ((finding.blocks and (not topics or not finding.topics)) or not topics.isdisjoint(finding.topics))
    ]
    return relevant[:_MOST_FINDINGS]


def _wants_members(wrong: Sequence[Condition]) -> bool:
    return any(isinstance(condition, MemberCount | Present) for condition in wrong)


def _met_words(
    sight: GroupSight, conditions: Sequence[Condition], summary: GroupSummary, waited_ms: int
) -> str:
    """`billing is Stable: generation 2, 3 members, 6 of 6 partitions of orders owned (0.9 s)`."""
    waited = seconds(waited_ms)
    if sight.view is None:
        return f"There is no group {sight.name}: {why_absent(sight.removal)} ({waited})"
    members = f"{summary.members} member{'' if summary.members == 1 else 's'}"
    said = [f"generation {summary.generation_id}", members]
    said += filter(None, [condition.achieved(sight) for condition in conditions])
    return f"{sight.name} is {summary.state}: {', '.join(said)} ({waited})"
