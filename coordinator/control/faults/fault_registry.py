"""All faults of a server. Without faults, requests take their normal path."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from coordinator.broker.services import Services
from coordinator.control.admin.coordinator_failover import CoordinatorFailover
from coordinator.control.faults.fault_rule import FaultRule, FaultStatus
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.group_finding import GroupFinding
from coordinator.control.member_connections import MemberConnections
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import format_seconds, printable
from coordinator.core.wire_name import wire_name
from coordinator.group.group_view import GroupView

if TYPE_CHECKING:
    from coordinator.control.faults.fault_injectors import FaultInjectors
    from coordinator.control.faults.installed_fault import InstalledFault

_LOG: Final = logging.getLogger("Control")

MAX_FAULTS: Final = 1_000
"""The maximum number of faults. The comparison of a request with one fault of its API takes a few
microseconds."""
MAX_WAITERS: Final = 1_000
LONGEST_WAIT_MS: Final = 600_000
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@wire_name("Removed")
class RemovedFaults(Struct, frozen=True, kw_only=True):
    """The names of the removed faults, and the number of requests and responses that they held. These
    continue."""

    removed: list[str]
    released: int


@wire_name("Released")
class ReleasedRequests(Struct, frozen=True, kw_only=True):
    """The number of requests and responses that continue, and the number of still held ones."""

    released: int
    holding: int


MemberExpirer = Callable[[str, str, str | None], Awaitable[object]]
"""Takes a group, a reference to the member to expire, and the operator. Raises Problem."""
ClockFreezer = Callable[[str], Awaitable[object]]
"""Freezes the clock of a group. Raises Problem."""


class FaultRegistry:
    """The faults of a server. All methods belong to the event loop's thread."""

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        failover: CoordinatorFailover,
        connections: MemberConnections,
        freeze_clock: ClockFreezer,
        expire_member: MemberExpirer,
        *,
        allows_crash_faults: bool,
    ) -> None:
        """Create an empty registry. With `allows_crash_faults`, faults may end the process."""
        self._allows_crash_faults = allows_crash_faults
        self._freeze_clock = freeze_clock
        self._expire_member = expire_member
        self._running_actions: set[asyncio.Task[None]] = set()
        self._services = services
        self._actions = actions
        self._failover = failover
        self._connections = connections
        self._faults: dict[str, InstalledFault] = {}
        self._injectors: FaultInjectors | None = None
        self._name_count = 0
        self._removed_hit_counts: Counter[str] = Counter()
        self._waiter_count = 0

    # Installation

    def install_fault(self, rule: FaultRule, by: str | None = None, *, replaces: bool = False) -> FaultStatus:
        """Create a fault, which acts from now on.

        Args:
            rule: The rule.
            by: The name of the operator.
            replaces: Whether to replace a fault of the same name.

        Raises:
            Problem: bad-request, not-possible, name-taken, too-many, control-off.
        """
        # A daemon without faults does not import the modules below.
        from coordinator.control.faults.fault_injectors import FaultInjectors
        from coordinator.control.faults.installed_fault import create_fault

        name = self._choose_name(rule, replaces=replaces)
        services = self._services
        fault = create_fault(
            name, rule, by, services.runtime.topic.flush, services.membership.ownership.registered
        )
        self._check_allowed(fault)
        if name in self._faults:
            self._uninstall([name])
        if self._injectors is None:
            self._injectors = FaultInjectors(self._services, self._actions, self._run_event_action)
        self._faults[name] = fault
        if rule.for_ is not None:
            seconds = parse_duration_ms(rule.for_, "for") / 1000
            fault.expire_after(self._services.loop, seconds, self._on_expired)
        self._injectors.add(fault)
        self._injectors.audit.report_change(
            [fault], f"{name} created: {fault.action.kind} at {fault.action.at}", by
        )
        return fault.status

    def _choose_name(self, rule: FaultRule, *, replaces: bool) -> str:
        name = rule.name
        if name is None:
            self._name_count += 1
            name = f"{rule.use or 'fault'}-{self._name_count}"
            while name in self._faults:
                self._name_count += 1
                name = f"{rule.use or 'fault'}-{self._name_count}"
        elif not _NAME.fullmatch(name):
            detail = f"name: {printable(name)!r} must have 1 to 100 letters, digits, '.', '_' and '-'."
            raise Problem(ProblemKind.BAD_REQUEST, "name is invalid", detail, {"pointer": "/name"})
        if name in self._faults:
            if not replaces:
                detail = f"Fault {name} already exists. PUT replaces it, DELETE removes it."
                raise Problem(ProblemKind.NAME_TAKEN, f"{name} is taken", detail)
        elif len(self._faults) >= MAX_FAULTS:
            raise Problem(
                ProblemKind.TOO_MANY,
                "too many faults",
                f"There are {MAX_FAULTS} faults, which is the limit. DELETE /v1/faults/NAME removes one, "
                "DELETE /v1/faults all. A `match` can list names and use `*`.",
            )
        return name

    def _check_allowed(self, fault: "InstalledFault") -> None:
        if fault.action.kills and not self._allows_crash_faults:
            detail = "crash: process ends the daemon. Set control.enable=true or open to allow it."
            raise Problem(ProblemKind.CONTROL_OFF, "control.enable does not allow crashes", detail)

    def _on_expired(self, fault: "InstalledFault") -> None:
        """End a fault at the end of its duration."""
        self._update_injectors()
        if self._injectors is not None:
            self._injectors.disk.let_go(fault)
        self._release_held(fault)

    # Queries and waits

    def list_faults(self) -> list[FaultStatus]:
        """Return every fault, in the order of creation."""
        return [fault.status for fault in self._faults.values()]

    def get_status(self, name: str) -> FaultStatus:
        """Return the status of a fault. Raises Problem (no-such-fault)."""
        return self._find(name).status

    def _find(self, name: str) -> "InstalledFault":
        fault = self._faults.get(name)
        if fault is None:
            names = ", ".join(list(self._faults)[:10]) or "none"
            detail = f"Fault {printable(name)} does not exist. The faults are: {names}."
            raise Problem(ProblemKind.NO_SUCH_FAULT, f"fault {printable(name)} does not exist", detail)
        return fault

    @property
    def held_count(self) -> int:
        """Return the number of held, delayed or swallowed requests and responses."""
        return sum(len(fault.held_requests) for fault in self._faults.values())

    @property
    def hit_counts(self) -> Counter[str]:
        """Return the number of hits by action since the start, also those of removed faults."""
        hits = self._removed_hit_counts.copy()
        for fault in self._faults.values():
            hits[fault.action.kind] += fault.hit_count
        return hits

    @property
    def waiter_count(self) -> int:
        """Return the number of open waits for hits of faults."""
        return self._waiter_count

    def find_held_requests(self, view: GroupView) -> list[GroupFinding]:
        """Return findings about requests and responses of a group that faults hold, and about members that faults
        answered as unknown."""
        found: list[GroupFinding] = []
        members = {member.name.member_id: member.name.client_id for member in view.members}
        for fault in self._faults.values():
            if fault.held_requests or fault.ghosts:
                from coordinator.control.faults.fault_reports import build_ghost_findings, build_held_findings

                found += build_held_findings(fault, view.group_id)
                found += build_ghost_findings(fault, view.group_id, members)
        return found

    async def wait_for_hits(self, name: str, hits: int, within_ms: int) -> FaultStatus:
        """Wait until a fault has `hits` hits since its creation, for at most `within_ms` milliseconds.

        Raises:
            Problem: no-such-fault, not-met, too-many, bad-request.
        """
        fault = self._find(name)
        if not 0 <= within_ms <= LONGEST_WAIT_MS:
            detail = "within must not exceed 10 minutes."
            raise Problem(ProblemKind.BAD_REQUEST, "within is invalid", detail, {"pointer": "/within"})
        if fault.hit_count >= hits:
            return fault.status
        if self._waiter_count >= MAX_WAITERS:
            detail = f"{MAX_WAITERS} callers already wait for faults, which is the limit."
            raise Problem(ProblemKind.TOO_MANY, "too many waits", detail)
        waiter: asyncio.Future[bool] = self._services.loop.create_future()
        entry = (hits, waiter)
        fault.waiters.append(entry)
        self._waiter_count += 1
        try:
            await asyncio.wait_for(waiter, within_ms / 1000)
        except TimeoutError:
            raise self._not_hit_problem(fault, hits, within_ms) from None
        finally:
            self._waiter_count -= 1
            fault.waiters.remove(entry)
        if fault.hit_count < hits:
            detail = f"{name} has hit {fault.hit_count} times, {hits} wanted; it was removed or replaced."
            raise Problem(ProblemKind.NO_SUCH_FAULT, f"{name} was removed or replaced", detail)
        return fault.status

    @staticmethod
    def _not_hit_problem(fault: "InstalledFault", hits: int, within_ms: int) -> Problem:
        title = (
            f"{fault.name} has hit {fault.hit_count} times after {format_seconds(within_ms)}, {hits} wanted"
        )
        why = f"It has matched {fault.match_count} times, and skipped the first {fault.rule.skip} matches"
        return Problem(
            ProblemKind.NOT_MET,
            title,
            f"{title}. {why}.",
            {"matched": fault.match_count, "hit": fault.hit_count},
        )

    # Release and removal

    def release_fault(
        self, name: str, *, only_oldest: bool = False, by: str | None = None
    ) -> ReleasedRequests:
        """Release the held requests and responses of a fault. Raises Problem (no-such-fault)."""
        fault = self._find(name)
        released = self._release_held(fault, only_oldest=only_oldest)
        assert self._injectors is not None
        self._injectors.audit.report_change([fault], f"{name} released {released}", by)
        return ReleasedRequests(released=released, holding=len(fault.held_requests))

    @staticmethod
    def _release_held(fault: "InstalledFault", *, only_oldest: bool = False) -> int:
        held = fault.held_requests[:1] if only_oldest else list(fault.held_requests)
        for request in held:
            request.release()
        return len(held)

    def remove_fault(self, name: str, by: str | None = None) -> RemovedFaults:
        """Remove a fault and release its held requests. Raises Problem (no-such-fault)."""
        self._find(name)
        return self._remove([name], by)

    def remove_all(self, by: str | None = None) -> RemovedFaults:
        return self._remove(list(self._faults), by)

    def _remove(self, names: Sequence[str], by: str | None) -> RemovedFaults:
        if not names:
            return RemovedFaults(removed=[], released=0)
        faults = [self._faults[name] for name in names]
        released = self._uninstall(names)
        assert self._injectors is not None
        self._injectors.audit.report_change(faults, f"{', '.join(names)} removed", by)
        return RemovedFaults(removed=list(names), released=released)

    def _uninstall(self, names: Sequence[str]) -> int:
        removed = [self._faults.pop(name) for name in names]
        for fault in removed:
            self._removed_hit_counts[fault.action.kind] += fault.hit_count
            fault.end()
        self._update_injectors()
        if self._injectors is not None:
            for fault in removed:
                self._injectors.disk.let_go(fault)
        return sum(self._release_held(fault) for fault in removed)

    def _update_injectors(self) -> None:
        if self._injectors is not None:
            self._injectors.use([fault for fault in self._faults.values() if not fault.is_over])

    def close(self) -> None:
        """Remove every fault without log lines."""
        self._uninstall(list(self._faults))

    # Actions on events

    def _run_event_action(self, fault: "InstalledFault", group_id: str) -> None:
        """Perform the action of a fault on an event, after the call that published the event."""
        action = fault.action
        if action.kind == "failover":
            self._failover.start_failover(
                group_id, action.not_coordinator_ms, action.loading_ms, f"fault {fault.name}", action.to
            )
        elif action.kind == "freeze":
            self._start_action(self._freeze_clock(group_id), fault)
        elif action.kind == "expire":
            for member in action.members:
                self._start_action(self._expire_member(group_id, member, f"fault {fault.name}"), fault)
        elif action.kind == "release":
            if action.release in self._faults:
                self._release_held(self._faults[action.release])
        elif action.kind == "disconnect":
            self._disconnect_members(group_id, action.members)

    def _start_action(self, acting: Awaitable[object], fault: "InstalledFault") -> None:
        async def act() -> None:
            try:
                await acting
            except Problem as problem:
                _LOG.warning("Fault %s could not act: %s", fault.name, problem.detail)

        task = self._services.loop.create_task(act())
        self._running_actions.add(task)
        task.add_done_callback(self._running_actions.discard)

    def _disconnect_members(self, group_id: str, members: Sequence[str]) -> None:
        from coordinator.control.faults.fault_matchers import find_named_members

        machine = self._services.runtime.find_partition(group_id).machine
        view = None if machine is None else machine.view_group(group_id, self._services.group_clock.now())
        if view is not None and members:
            self._connections.close_connections(group_id, find_named_members(view, members))
