"""All that there is to say about a group beyond what it is doing."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from coordinator.control.waits import assignment_findings, blocking_findings, settings_findings
from coordinator.control.waits.finding import Finding
from coordinator.control.waits.sight import GroupSight

FINDERS: Final[tuple[Callable[[GroupSight], Iterator[Finding]], ...]] = (
    blocking_findings.ghosts,
    blocking_findings.awaited,
    blocking_findings.gone,
    blocking_findings.silent,
    blocking_findings.expecting,
    blocking_findings.refused,
    assignment_findings.left_out,
    assignment_findings.strangers,
    assignment_findings.no_such_topics,
    assignment_findings.unowned,
    assignment_findings.subscriptions,
    assignment_findings.idle,
    settings_findings.timeouts,
    settings_findings.assignors,
    settings_findings.instance_ids,
    settings_findings.client_ids,
)


def findings(sight: GroupSight) -> Sequence[Finding]:
    """What is found, what keeps the group from working first. A member that is a ghost is nothing else."""
    found = [finding for finder in FINDERS for finding in finder(sight)]
    ghosts = {member_id for finding in found if finding.kind == "ghost" for member_id in finding.members}
    kept = [
        finding
        for finding in found
        if finding.kind == "ghost" or not finding.members or not ghosts.issuperset(finding.members)
    ]
    return tuple(sorted(kept, key=lambda finding: not finding.blocks))
