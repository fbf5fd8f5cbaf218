"""Explains a group: its activity, its findings and hints, and the result of a wait or check for it.

A wait ends with a `WaitResult`, or with a Problem that explains why the conditions do not hold.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from coordinator.control.admin.group_models import GroupSummary
from coordinator.control.diagnosis import group_findings
from coordinator.control.diagnosis.group_conditions import (
    Condition,
    MemberCountCondition,
    MembersPresentCondition,
)
from coordinator.control.diagnosis.group_snapshot import NO_GROUP_STATE, GroupSnapshot
from coordinator.control.diagnosis.partition_conditions import TopicsOwnedCondition
from coordinator.control.diagnosis.state_description import describe_state
from coordinator.control.group_finding import GroupFinding, format_request, list_actions
from coordinator.control.group_removals import GroupRemoval, removal_value, why_absent
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import format_count, format_seconds
from coordinator.core.wire_name import wire_name
from coordinator.group.group_view import GroupView

FINDERS: Final[tuple[Callable[[GroupSnapshot], Iterator[GroupFinding]], ...]] = (
    group_findings.find_ghosts,
    group_findings.find_awaited_members,
    group_findings.find_disconnected_members,
    group_findings.find_silent_members,
    group_findings.find_pending_members,
    group_findings.find_refused_joins,
    group_findings.find_members_left_out,
    group_findings.find_unknown_assignees,
    group_findings.find_missing_topics,
    group_findings.find_ownership_errors,
    group_findings.find_different_subscriptions,
    group_findings.find_idle_members,
    group_findings.find_timeout_conflicts,
    group_findings.find_assignor_conflicts,
    group_findings.find_changing_instance_ids,
    group_findings.find_shared_client_ids,
)


FindingProvider = Callable[[GroupView], list[GroupFinding]]
"""Returns findings about a group, from a part of the control plane that holds or changes groups."""


def collect_findings(snapshot: GroupSnapshot, providers: Sequence[FindingProvider]) -> Sequence[GroupFinding]:
    """Return the findings about a group by weight. Blocking findings come first, and among them those of the
    providers, because operator actions cause the others."""
    provided = [] if snapshot.view is None else [one for find in providers for one in find(snapshot.view)]
    found = [*provided, *snapshot.compute_once(_find_in_snapshot)]
    return tuple(sorted(found, key=lambda finding: not finding.blocks))


def _find_in_snapshot(snapshot: GroupSnapshot) -> Sequence[GroupFinding]:
    """Return the findings of all finders, without further findings about ghost members."""
    found = [finding for finder in FINDERS for finding in finder(snapshot)]
    ghosts = {member_id for finding in found if finding.kind == "ghost" for member_id in finding.members}
    return tuple(
        finding
        for finding in found
        if finding.kind == "ghost" or not finding.members or not ghosts.issuperset(finding.members)
    )


@wire_name("Explanation")
class Explanation(Struct, frozen=True, kw_only=True):
    """The explanation of a group. `state` is null if the group is unavailable. `detail` describes its state,
    its waits and the events that end them. `hints` are remedies. `removed` is the removal of a group that
    does not exist any more."""

    group_id: str
    seq: int
    state: str | None
    generation_id: int | None
    detail: str
    findings: list[GroupFinding]
    hints: list[str]
    removed: GroupRemoval | None = None


def explain_snapshot(snapshot: GroupSnapshot, providers: Sequence[FindingProvider]) -> Explanation:
    """Return the explanation of a group at one moment."""
    found = collect_findings(snapshot, providers)
    return Explanation(
        group_id=snapshot.group_id,
        seq=snapshot.seq,
        state=snapshot.state,
        generation_id=None if snapshot.view is None else snapshot.view.generation_id,
        detail=describe_state(snapshot),
        findings=list(found),
        hints=collect_hints(found),
        removed=snapshot.removal,
    )


def collect_hints(found: Sequence[GroupFinding]) -> list[str]:
    """Return the distinct hints of findings, in the order of the findings."""
    return list(dict.fromkeys(finding.hint for finding in found if finding.hint is not None))


def format_explanation(explained: Explanation) -> str:
    """Format an explanation as text: the state, the findings, and the remedies with their API requests."""
    lines = [explained.detail]
    lines += [f"- {finding.sentence}." for finding in explained.findings]
    lines += dict.fromkeys(filter(None, map(_format_remedy, explained.findings)))
    return "\n".join(lines) + "\n"


def _format_remedy(finding: GroupFinding) -> str | None:
    """Return the hint of a finding, or the label of its action, with the request of the action."""
    hint, action = finding.hint, finding.action
    if action is None:
        return None if hint is None else f"? {hint}"
    return f"? {action.label if hint is None else hint}: {format_request(action)}"


_MAX_FINDINGS = 5


@wire_name("Met")
class WaitResult(Struct, frozen=True, kw_only=True):
    """The result of a successful wait: all conditions held, and the records that they rely on are durable. `seq` is
    the number of the last event at that time, for `after` of a later wait. `mark` identifies the process of that
    number ("`mark`.`seq`"). `detail` is a sentence."""

    waited_ms: int
    seq: int
    group: GroupSummary
    detail: str
    mark: str = ""


def build_wait_result(snapshot: GroupSnapshot, conditions: Sequence[Condition], waited_ms: int) -> WaitResult:
    """Return the result of a wait after `waited_ms` milliseconds. All conditions hold in the snapshot."""
    view = snapshot.view
    summary = GroupSummary(
        group_id=snapshot.group_id,
        type="classic" if view is None else view.type.value,
        state=snapshot.state or NO_GROUP_STATE,
        protocol_type=None if view is None else view.protocol_type,
        generation_id=-1 if view is None else view.generation_id,
        members=len(snapshot.members),
    )
    return WaitResult(
        waited_ms=waited_ms,
        seq=snapshot.seq,
        group=summary,
        detail=_format_met(snapshot, conditions, summary, waited_ms),
    )


def format_wait_result(answer: WaitResult) -> str:
    """Format the result of a wait as text."""
    return f"{answer.detail}\n"


def not_met_problem(
    snapshot: GroupSnapshot,
    conditions: Sequence[Condition],
    waited_ms: int | None,
    joins_before: int,
    providers: Sequence[FindingProvider],
) -> Problem:
    """Return the problem that a condition does not hold.

    Args:
        snapshot: the state of the group.
        conditions: all conditions.
        waited_ms: how long the caller waited, in milliseconds; None for a single test.
        joins_before: the number of JoinGroup requests before the wait.
        providers: sources of findings about operator actions.
    """
    wrong = [condition for condition in conditions if not condition.is_met(snapshot)]
    found = collect_findings(snapshot, providers)
    after = "" if waited_ms is None else f" after {format_seconds(waited_ms)}"
    relevant = _select_relevant(snapshot, wrong, found)
    remedied = [one for one in found if one.blocks or one in relevant]
    fields: dict[str, object] = {
        "seq": snapshot.seq,
        "unmet": [
            {"condition": unmet.condition, "wanted": unmet.wanted, "is": unmet.actual}
            for unmet in (condition.describe_unmet(snapshot) for condition in wrong)
        ],
        "hints": collect_hints(remedied),
        "actions": list_actions(remedied),
    }
    if snapshot.removal is not None:
        fields["removed"] = removal_value(snapshot.removal)
    sentences = [
        snapshot.compute_once(describe_state),
        *(f"{why}." for why in (condition.explain_unmet(snapshot) for condition in wrong) if why),
    ]
    if waited_ms is not None and _wants_members(wrong) and snapshot.history.join_count == joins_before:
        sentences.append("No JoinGroup arrived meanwhile.")
    sentences += [f"{finding.sentence}." for finding in relevant]
    return Problem(
        ProblemKind.NOT_MET,
        f"{snapshot.name} does not meet the conditions{after}",
        " ".join(dict.fromkeys(sentences)),
        fields,
    )


def not_durable_problem(snapshot: GroupSnapshot, waited_ms: int) -> Problem:
    """Return the Problem of a wait that met its conditions with records that the disk has not confirmed."""
    is_so = f"All conditions hold, but the log was not synced within {format_seconds(waited_ms)}."
    detail = f"{describe_state(snapshot)} {is_so}"
    title = f"{snapshot.name} does not durably meet the conditions after {format_seconds(waited_ms)}"
    return Problem(
        ProblemKind.NOT_MET, title, detail, {"seq": snapshot.seq, "unmet": [], "hints": [], "actions": []}
    )


def _select_relevant(
    snapshot: GroupSnapshot, wrong: Sequence[Condition], found: Sequence[GroupFinding]
) -> list[GroupFinding]:
    """Return the findings to add to the description of a failed wait.

    They are blocking findings, and findings about the topics of unmet conditions, that no other sentence mentions.
    """
    mentioned = {"pending"}
    if any(isinstance(condition, TopicsOwnedCondition) for condition in wrong):
        mentioned |= {"unowned", "owned_twice", "no_such_topic"}
    topics: frozenset[str] = frozenset().union(*(condition.list_topics(snapshot) for condition in wrong))
    relevant = [
        finding
        for finding in found
        if finding.kind not in mentioned
        and ((finding.blocks and (not topics or not finding.topics)) or not topics.isdisjoint(finding.topics))
    ]
    return relevant[:_MAX_FINDINGS]


def _wants_members(wrong: Sequence[Condition]) -> bool:
    return any(isinstance(condition, MemberCountCondition | MembersPresentCondition) for condition in wrong)


def _format_met(
    snapshot: GroupSnapshot, conditions: Sequence[Condition], summary: GroupSummary, waited_ms: int
) -> str:
    """Return text such as `billing is Stable: generation 2, 3 members, 6 of 6 partitions of orders owned (0.9
    s)`."""
    waited = format_seconds(waited_ms)
    if snapshot.view is None:
        return f"Group {snapshot.name} does not exist: {why_absent(snapshot.removal)} ({waited})"
    members = format_count(summary.members, "member")
    parts = [f"generation {summary.generation_id}", members]
    parts += filter(None, [condition.describe_met(snapshot) for condition in conditions])
    return f"{snapshot.name} is {summary.state}: {', '.join(parts)} ({waited})"
