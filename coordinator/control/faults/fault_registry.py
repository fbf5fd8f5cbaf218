"""All faults of a server: made, shown, waited for, released, removed. While there is none, nothing of it is in the
way of anybody."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from coordinator.control.acts import Acts
from coordinator.control.duration import duration_ms
from coordinator.control.failover.failover import Failover
from coordinator.control.faults.rule import FaultRule, FaultStatus
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from coordinator.server.server import Server

if TYPE_CHECKING:
    from coordinator.control.faults.fault import Fault
    from coordinator.control.faults.seams import Seams

_LOG: Final = logging.getLogger("Control")

MOST_FAULTS: Final = 1_000
"""A request is compared with every fault of its API, which takes a few microseconds each."""
MOST_WAITERS: Final = 1_000
LONGEST_WAIT_MS: Final = 600_000
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Removed(Struct, frozen=True, kw_only=True):
    """Faults that are gone, and how many requests and answers they held, which go on."""

    removed: list[str]
    released: int


class Released(Struct, frozen=True, kw_only=True):
    """How many requests and answers go on, and how many are still held."""

    released: int
    holding: int


ExpireMember = Callable[[str, str, str | None], Awaitable[object]]
"""Takes a group, a reference to the member whose session is over, and who says so. Raises Problem."""
Freeze = Callable[[str], Awaitable[object]]
"""Takes a group whose clock is to stand still. Raises Problem."""


class Faults:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(
        self,
        server: Server,
        acts: Acts,
        failover: Failover,
        connections: MemberConnections,
        freeze: Freeze,
        expire: ExpireMember,
        *,
        may_harm: bool,
    ) -> None:
        """In: whether control is on in so many words, so that a fault may end the process."""
        self._may_harm = may_harm
        self._freeze = freeze
        self._expire = expire
        self._acting: set[asyncio.Task[None]] = set()
        self._server = server
        self._acts = acts
        self._failover = failover
        self._connections = connections
        self._faults: dict[str, Fault] = {}
        self._seams: Seams | None = None
        self._made = 0
        self._gone_hits: Counter[str] = Counter()
        self._waiters = 0

    # Made

    def make(self, rule: FaultRule, by: str | None = None, *, replaces: bool = False) -> FaultStatus:
        """Makes a fault, which acts from now on. In: who asks; whether one of the same name goes.

        Raises Problem: bad-request, not-possible, name-taken, too-many, control-off.
        """
        # A daemon in which nobody asks for faults does without what follows.
        from coordinator.control.faults.making import made
        from coordinator.control.faults.seams import Seams

        name = self._name(rule, replaces=replaces)
        server = self._server
        fault = made(name, rule, by, server.runtime.topic.flush, server.brokers.ownership.registered)
        self._check(fault)
        if name in self._faults:
            self._take_out([name])
        if self._seams is None:
            self._seams = Seams(self._server, self._acts, self._act)
        self._faults[name] = fault
        if rule.for_ is not None:
            seconds = duration_ms(rule.for_, "for") / 1000
            fault.timer = self._server.loop.call_later(seconds, self._over, fault)
        self._seams.add(fault)
        self._seams.told.change([fault], f"{name} made: {fault.action.kind} at {fault.action.at}", by)
        return fault.status

    def _name(self, rule: FaultRule, *, replaces: bool) -> str:
        name = rule.name
        if name is None:
            self._made += 1
            name = f"{rule.use or 'fault'}-{self._made}"
            while name in self._faults:
                self._made += 1
                name = f"{rule.use or 'fault'}-{self._made}"
        elif not _NAME.fullmatch(name):
            detail = (
                f"name: {printable(name)!r} is none: letters, digits, '.', '_' and '-', at most 100 of them."
            )
            raise Problem(ProblemKind.BAD_REQUEST, "name is wrong", detail, {"pointer": "/name"})
        if name in self._faults:
            if not replaces:
                detail = f"There is a fault {name}. PUT replaces it, DELETE removes it."
                raise Problem(ProblemKind.NAME_TAKEN, f"{name} is taken", detail)
        elif len(self._faults) >= MOST_FAULTS:
            raise Problem(
                ProblemKind.TOO_MANY,
                "too many faults",
                f"There are {MOST_FAULTS} faults, as many as there may be. DELETE /v1/faults/NAME removes one, "
                "DELETE /v1/faults all. A `match` can list names and use `*`.",
            )
        return name

    def _check(self, fault: "Fault") -> None:
        if fault.action.kills and not self._may_harm:
            detail = "crash: process ends the daemon. It needs control.enable=true, in so many words."
            raise Problem(ProblemKind.CONTROL_OFF, "control is not on in so many words", detail)

    def _over(self, fault: "Fault") -> None:
        """The time of a fault has passed."""
        fault.timer = None
        fault.is_over = True
        self._use()
        if self._seams is not None:
            self._seams.disk.let_go(fault)
        self._let_go(fault)

    # Shown

    def all(self) -> list[FaultStatus]:
        """Every fault, in the order in which they were made."""
        return [fault.status for fault in self._faults.values()]

    def get(self, name: str) -> FaultStatus:
        """One fault. Raises Problem (no-such-fault)."""
        return self._find(name).status

    def _find(self, name: str) -> "Fault":
        fault = self._faults.get(name)
        if fault is None:
            there = ", ".join(list(self._faults)[:10]) or "none"
            detail = f"There is no fault {printable(name)}; there are: {there}."
            raise Problem(ProblemKind.NO_SUCH_FAULT, f"no fault {printable(name)}", detail)
        return fault

    @property
    def holding(self) -> int:
        """How many requests and answers are held, delayed or swallowed."""
        return sum(len(fault.holdings) for fault in self._faults.values())

    @property
    def hits(self) -> Counter[str]:
        """How often faults have acted since the start, those that are gone included, by what they do."""
        hits = self._gone_hits.copy()
        for fault in self._faults.values():
            hits[fault.action.kind] += fault.hit
        return hits

    @property
    def waiters(self) -> int:
        """How many wait for a fault to hit."""
        return self._waiters

    def held_hints(self, view: GroupView) -> list[str]:
        """What faults have to do with a group that waits: sentences for people."""
        hints = []
        members = {member.name.member_id: member.name.client_id for member in view.members}
        for fault in self._faults.values():
            if fault.holdings or fault.ghosts:
                from coordinator.control.faults.words import ghost_hints, holding_hints

                hints += holding_hints(fault, view.group_id)
                hints += ghost_hints(fault, members)
        return hints

    async def wait(self, name: str, hits: int, within_ms: int) -> FaultStatus:
        """Waits until a fault has hit so often. Raises Problem: no-such-fault, not-met, too-many, bad-request."""
        fault = self._find(name)
        if not 0 <= within_ms <= LONGEST_WAIT_MS:
            detail = "within: nobody waits longer than 10 minutes."
            raise Problem(ProblemKind.BAD_REQUEST, "within is wrong", detail, {"pointer": "/within"})
        if fault.hit >= hits:
            return fault.status
        if self._waiters >= MOST_WAITERS:
            detail = f"{MOST_WAITERS} wait for faults, as many as may."
            raise Problem(ProblemKind.TOO_MANY, "too many wait", detail)
        waiter: asyncio.Future[bool] = self._server.loop.create_future()
        entry = (hits, waiter)
        fault.waiters.append(entry)
        self._waiters += 1
        try:
            await asyncio.wait_for(waiter, within_ms / 1000)
        except TimeoutError:
            raise self._not_hit(fault, hits, within_ms) from None
        finally:
            self._waiters -= 1
            fault.waiters.remove(entry)
        if fault.hit < hits:
            detail = (
                f"{name} has hit {fault.hit} times, {hits} wanted; it was removed, or another took its place."
            )
            raise Problem(ProblemKind.NO_SUCH_FAULT, f"{name} is gone", detail)
        return fault.status

    @staticmethod
    def _not_hit(fault: "Fault", hits: int, within_ms: int) -> Problem:
        told = f"{fault.name} has hit {fault.hit} times after {within_ms / 1000:.1f} s, {hits} wanted"
        why = f"It has matched {fault.matched} times, of which the first {fault.rule.skip} do not count"
        return Problem(
            ProblemKind.NOT_MET, told, f"{told}. {why}.", {"matched": fault.matched, "hit": fault.hit}
        )

    # Released and removed

    def release(self, name: str, *, only_oldest: bool = False, by: str | None = None) -> Released:
        """Lets go of what a fault holds. Raises Problem (no-such-fault)."""
        fault = self._find(name)
        released = self._let_go(fault, only_oldest=only_oldest)
        assert self._seams is not None
        self._seams.told.change([fault], f"{name} released {released}", by)
        return Released(released=released, holding=len(fault.holdings))

    @staticmethod
    def _let_go(fault: "Fault", *, only_oldest: bool = False) -> int:
        held = fault.holdings[:1] if only_oldest else list(fault.holdings)
        for holding in held:
            holding.release()
        return len(held)

    def remove(self, name: str, by: str | None = None) -> Removed:
        """Removes a fault; what it holds goes on. Raises Problem (no-such-fault)."""
        self._find(name)
        return self._remove([name], by)

    def remove_all(self, by: str | None = None) -> Removed:
        """Removes every fault."""
        return self._remove(list(self._faults), by)

    def _remove(self, names: Sequence[str], by: str | None) -> Removed:
        if not names:
            return Removed(removed=[], released=0)
        faults = [self._faults[name] for name in names]
        released = self._take_out(names)
        assert self._seams is not None
        self._seams.told.change(faults, f"{', '.join(names)} removed", by)
        return Removed(removed=list(names), released=released)

    def _take_out(self, names: Sequence[str]) -> int:
        gone = [self._faults.pop(name) for name in names]
        for fault in gone:
            self._gone_hits[fault.action.kind] += fault.hit
            fault.is_over = True
            if fault.timer is not None:
                fault.timer.cancel()
            for _, waiter in fault.waiters:
                if not waiter.done():
                    waiter.set_result(False)
        self._use()
        if self._seams is not None:
            for fault in gone:
                self._seams.disk.let_go(fault)
        return sum(self._let_go(fault) for fault in gone)

    def _use(self) -> None:
        if self._seams is not None:
            self._seams.use([fault for fault in self._faults.values() if not fault.is_over])

    def close(self) -> None:
        """Removes every fault, and tells nobody."""
        self._take_out(list(self._faults))

    # On an event

    def _act(self, fault: "Fault", group_id: str) -> None:
        """Does what a fault does on an event, when the turn of the event is over."""
        action = fault.action
        if action.kind == "failover":
            self._failover.begin(
                group_id, action.not_coordinator_ms, action.loading_ms, f"fault {fault.name}", action.to
            )
        elif action.kind == "freeze":
            self._begin(self._freeze(group_id), fault)
        elif action.kind == "expire":
            for member in action.members:
                self._begin(self._expire(group_id, member, f"fault {fault.name}"), fault)
        elif action.kind == "release":
            if action.release in self._faults:
                self._let_go(self._faults[action.release])
        elif action.kind == "disconnect":
            self._disconnect(group_id, action.members)

    def _begin(self, acting: Awaitable[object], fault: "Fault") -> None:
        async def act() -> None:
            try:
                await acting
            except Problem as problem:
                _LOG.warning("Fault %s could not act: %s", fault.name, problem.detail)

        task = self._server.loop.create_task(act())
        self._acting.add(task)
        task.add_done_callback(self._acting.discard)

    def _disconnect(self, group_id: str, members: Sequence[str]) -> None:
        from coordinator.control.faults.disconnecting import members_named

        machine = self._server.runtime.partition_of(group_id).machine
        view = None if machine is None else machine.view(group_id, self._server.group_clock.now())
        if view is not None and members:
            self._connections.close(group_id, members_named(view, members))
