"""Reports of triggered faults: operator actions, by which the ledger and the log name a fault as a cause, and
findings about groups that wait because of a fault.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.control.faults.fault_matchers import RequestAttributes
from coordinator.control.faults.installed_fault import InstalledFault
from coordinator.control.group_finding import FindingAction, FindingOperation, GroupFinding
from coordinator.control.operator_actions import ActionLog
from coordinator.core import clock
from coordinator.core.message_text import format_seconds, printable
from protocol.apis import APIS, ApiKey

ACTION_KIND: Final = "fault"
MAX_REPORTED_HITS: Final = 100
"""The number of hits of one fault that are logged individually. After these, every thousandth is logged."""
_REPORT_EVERY: Final = 1000
_ANSWER_POINTS: Final = ("answer", "before_answer")
_ACTION_TEXTS: Final = {
    "hold": "holds {}",
    "delay": "delays {}",
    "swallow": "swallowed {}",
    "drop": "dropped the connection of {}",
    "throttle_ms": "throttled {}",
    "coordinator": "named another coordinator to {}",
    "crash": "crashed at {}",
    "fail": "failed the disk at {}",
}


class FaultAudit:
    def __init__(self, actions: ActionLog) -> None:
        self._actions = actions

    def report_hit(self, fault: InstalledFault, what: str, request_attributes: RequestAttributes) -> None:
        """Record a hit on a request or its response. `what` is the kind of the action or the injected error."""
        who = (
            request_attributes.client.client_id
            or next(iter(request_attributes.member_ids), "")
            or "a client without a name"
        )
        request = f"{APIS[request_attributes.key].name} of {who}"
        of_answer = "the answer to " if fault.action.at == "answer" and what in _ACTION_TEXTS else ""
        description = _ACTION_TEXTS.get(what, what + " to {}").format(of_answer + request)
        groups = fault.matcher.select_groups(request_attributes)
        self._report(fault, description, groups[0] if groups else None, request_attributes)

    def report_event_hit(self, fault: InstalledFault, group_id: str, event: str) -> None:
        """Record a hit on an event of a group. `event` is the wire name of its class."""
        self._report(fault, f"{fault.action.kind} on {event}", group_id, None)

    def _report(
        self,
        fault: InstalledFault,
        description: str,
        group_id: str | None,
        request_attributes: RequestAttributes | None,
    ) -> None:
        fault.record_hit(description, group_id, request_attributes)
        if fault.hit_count <= MAX_REPORTED_HITS or fault.hit_count % _REPORT_EVERY == 0:
            is_sync = (
                request_attributes is not None
                and request_attributes.key == ApiKey.SYNC_GROUP
                and fault.action.at in _ANSWER_POINTS
            )
            generation_id = (
                request_attributes.named_generation if is_sync and request_attributes is not None else None
            )
            self._actions.record_action(
                ACTION_KIND, f"{fault.name} {description}", group_id, fault.by, generation_id
            )

    def report_change(self, faults: Sequence[InstalledFault], what: str, by: str | None) -> None:
        """Report created, removed or released faults; to a single group if all of them are about that group."""
        groups = {fault.group_id for fault in faults}
        self._actions.record_action(ACTION_KIND, what, groups.pop() if len(groups) == 1 else None, by)


MAX_FINDINGS: Final = 10
_HOLD_VERBS: Final = {"hold": "holds", "delay": "delays", "swallow": "has swallowed"}


def build_held_findings(fault: InstalledFault, group_id: str) -> list[GroupFinding]:
    """Return a finding for each request or response of a group that a fault holds."""
    found: list[GroupFinding] = []
    for held in fault.held_requests:
        if group_id not in held.request.group_ids or len(found) >= MAX_FINDINGS:
            continue
        api = APIS[held.request.key].name
        what = f"the answer to the {api}" if fault.action.at == "answer" else f"the {api}"
        held_ms = (clock.monotonic_ns() - held.since_ns) / 1e6
        is_swallowed = held.kind == "swallow"
        verb = "Remove" if is_swallowed else "Release"
        found.append(
            GroupFinding(
                kind="held_by_fault",
                sentence=(
                    f"fault {fault.name} {_HOLD_VERBS[held.kind]} {what} of "
                    f"{printable(held.request.client.client_id)} since {format_seconds(held_ms)}, and later "
                    f"requests of its connection wait"
                ),
                blocks=True,
                hint=f"{verb} fault {fault.name}" + (" to end its connection" if is_swallowed else ""),
                action=FindingAction(
                    operation=(
                        FindingOperation.REMOVE_FAULT if is_swallowed else FindingOperation.RELEASE_FAULT
                    ),
                    label=f"{verb} fault {fault.name}",
                    arguments={"fault": fault.name},
                ),
            )
        )
    return found


def build_ghost_findings(
    fault: InstalledFault, group_id: str, members: Mapping[str, str]
) -> list[GroupFinding]:
    """Return a finding for each member that a fault answered as unknown. `members` has client ids by member id."""
    return [
        GroupFinding(
            kind="hidden_by_fault",
            sentence=(
                f"fault {fault.name} answered UNKNOWN_MEMBER_ID to {printable(members[ghost])} in place of the "
                f"group: it has joined under a new id, and {printable(ghost)} is a member until its session ends"
            ),
            blocks=True,
            members=[ghost],
            hint=f"Expire {printable(ghost)} to end its session now",
            action=FindingAction(
                operation=FindingOperation.EXPIRE_MEMBER,
                label=f"Expire the old {printable(members[ghost])}",
                arguments={"group": group_id, "member": ghost},
            ),
        )
        for ghost in list(fault.ghosts)[:MAX_FINDINGS]
        if ghost in members
    ]
