"""Disconnected members of groups, silent members during a clock advance, and the reaper of disconnected
members.

A member is disconnected if it has no open connection. It is also disconnected if its connection has joined
again under another member id and the old id was silent for its whole session in real time. A client does that
after a long stop: it counts its own session and forgets its member id. The old id would never expire while
the clock is frozen.

During an advance the members named by the caller are silent, or without names the disconnected ones; all
others live. If the client of a disconnected member has just reconnected, the member is undecided until its
next heartbeat.

The reaper ends sessions of disconnected members, in real time, in groups with a clock that is frozen for all
other members.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from coordinator.broker.services import Services
from coordinator.control.admin.group_operations import find_member
from coordinator.control.clock.group_time import GroupTimeTable
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from coordinator.group.event_details import MemberName
from coordinator.group.group_view import GroupView, MemberView


class DisconnectedMembers:
    def __init__(self, services: Services, connections: MemberConnections, times: GroupTimeTable) -> None:
        self._connections = connections
        self._clock = services.group_clock
        self._times = times

    def find_disconnected(self, view: GroupView) -> set[str]:
        """Return the ids of disconnected members, also of pending ones."""
        connections = self._connections.take_snapshot(view)
        newest = {member.connection_id: member.name.member_id for member in view.members}
        newest |= {pending.connection_id: pending.name.member_id for pending in view.pending}
        disconnected = set()
        for member in view.members:
            member_id = member.name.member_id
            is_superseded = (
                member.connection_id in connections.open_ids and newest[member.connection_id] != member_id
            )
            is_ghost = is_superseded and self.silent_ms(view, member) >= member.session_timeout_ms
            if is_ghost or not connections.has_connection(member):
                disconnected.add(member_id)
        return disconnected | {
            pending.name.member_id
            for pending in view.pending
            if pending.connection_id not in connections.open_ids
        }

    def find_possibly_reconnected(self, view: GroupView) -> set[str]:
        """Return the ids of members without a known connection whose client has opened a new one.

        The first heartbeat over a new connection tells which member uses it.
        """
        disconnected, open_ids = self.find_disconnected(view), self._connections.list_open_ids()
        members = [
            member
            for member in view.members
            if member.name.member_id in disconnected and member.connection_id not in open_ids
        ]
        if not members:
            return set()
        claimed = {member.connection_id for member in view.members}
        claimed |= {pending.connection_id for pending in view.pending}
        return self._connections.find_possibly_reconnected(members, claimed)

    def silent_ms(self, view: GroupView, member: MemberView) -> int:
        """Return the milliseconds since the last request of a member, in real time as far as known."""
        heard_ms = self._times.find_heard_ms(view.group_id, member.name.member_id)
        return member.silent_ms if heard_ms is None else self._clock.now().monotonic_ms - heard_ms


CHECK_INTERVAL_S: Final = 0.25


class DisconnectedMemberReaper:
    """Expires disconnected members of groups that are frozen with `except: "gone"`.

    It checks them at intervals. Their sessions last as long as usual, but in real time since their last
    request. A client that reconnects has that long to return.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disconnected: DisconnectedMembers,
        times: GroupTimeTable,
        list_groups: Callable[[], Iterable[GroupView]],
        process_ms: Callable[[], int],
        expire: Callable[[str, str], None],
    ) -> None:
        """Create the reaper.

        `list_groups` returns the groups, `process_ms` the monotonic time. `expire` takes the group
        and member ids of a session to end.
        """
        self._loop = loop
        self._disconnected = disconnected
        self._times = times
        self._list_groups = list_groups
        self._process_ms = process_ms
        self._expire = expire
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to check: a group needs it now."""
        if self._handle is None:
            self._run_check()

    def stop(self) -> None:
        """Stop the scheduled checks."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run_check(self) -> None:
        self._handle = None
        if self._is_needed():
            self._handle = self._loop.call_later(CHECK_INTERVAL_S, self._run_check)
            for view in list(self._list_groups()):
                self._expire_sessions(view)

    def _is_needed(self) -> bool:
        times = self._times
        default = [] if times.default is None else [times.default]
        return any(time.expires_disconnected for time in [*times.by_group.values(), *default])

    def _expire_sessions(self, view: GroupView) -> None:
        now_ms, disconnected = self._process_ms(), self._disconnected.find_disconnected(view)
        sessions = {member.name.member_id: member.session_timeout_ms for member in view.members}
        sessions |= {pending.name.member_id: pending.since_ms + pending.left_ms for pending in view.pending}
        self._times.keep_only_members(view.group_id, set(sessions))
        for member_id, session_ms in sessions.items():
            heard_ms = self._times.find_heard_ms(view.group_id, member_id)
            if heard_ms is None:
                self._times.record_heard(view.group_id, member_id, now_ms)
            elif member_id in disconnected and now_ms - heard_ms >= session_ms:
                self._expire(view.group_id, member_id)


class SilentMembers:
    """The members that are silent during an advance.

    The first check of a group decides. Members that join later are live, also under the id of an expired member.
    """

    def __init__(self, names: Sequence[str] | None, disconnected: DisconnectedMembers) -> None:
        """Create the set from member, instance or client ids, or from the disconnected members (None)."""
        self._names = names
        self._disconnected = disconnected
        self._silent: dict[str, set[str]] = {}
        self._uncertain: dict[str, set[str]] = {}
        """Silent members that may still be live."""
        self.client_ids: list[str] = []
        """The client ids of silent members."""

    def classify_members(self, view: GroupView) -> None:
        """Decide which members of a group are silent. A decision is final, except for uncertain members."""
        if view.group_id in self._silent:
            self._reclassify_members(view)
            return
        if self._names is None:
            silent = self._disconnected.find_disconnected(view)
            self._uncertain[view.group_id] = self._disconnected.find_possibly_reconnected(view)
        else:
            silent = {name.member_id for name in _list_names(view) if self._is_named(name)}
        self._silent[view.group_id] = silent
        self.client_ids += [name.client_id for name in _list_names(view) if name.member_id in silent]

    def _reclassify_members(self, view: GroupView) -> None:
        uncertain = self._uncertain.get(view.group_id)
        if not uncertain:
            return
        reconnected = uncertain - self._disconnected.find_disconnected(view)
        self._uncertain[view.group_id] = uncertain & self._disconnected.find_possibly_reconnected(view)
        self._silent[view.group_id] -= reconnected
        for name in _list_names(view):
            if name.member_id in reconnected:
                self.client_ids.remove(name.client_id)

    def is_uncertain(self, group_id: str, member_id: str) -> bool:
        """Return whether a silent member may still be live."""
        return member_id in self._uncertain.get(group_id, ())

    def find_live_members(self, view: GroupView) -> set[str]:
        """Return the ids of live members, also of pending ones."""
        silent = self._silent.get(view.group_id, set())
        disconnected = self._disconnected.find_disconnected(view) if view.pending else ()
        living = {name.member_id for name in _list_names(view)} - silent
        return living - {
            pending.name.member_id for pending in view.pending if pending.name.member_id in disconnected
        }

    def check_names(self, views: Sequence[GroupView]) -> None:
        """Raise Problem (no-such-member, ambiguous-member) for a name of no member, or of several in one group."""
        for name in self._names or ():
            if len(views) == 1 and not any(pending.name.member_id == name for pending in views[0].pending):
                find_member(views[0], name)
            elif not any(name in _list_identifiers(one) for view in views for one in _list_names(view)):
                detail = f"silent: no group on this clock has a member {printable(name)}."
                raise Problem(ProblemKind.NO_SUCH_MEMBER, f"member {printable(name)} does not exist", detail)

    def _is_named(self, name: MemberName) -> bool:
        return self._names is not None and any(one in self._names for one in _list_identifiers(name))


def _list_names(view: GroupView) -> list[MemberName]:
    return [member.name for member in view.members] + [pending.name for pending in view.pending]


def _list_identifiers(name: MemberName) -> tuple[str | None, ...]:
    return name.member_id, name.group_instance_id, name.client_id
