"""Ends the sessions of members that are gone from groups whose clock stands still for everybody else."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from coordinator.control.clock.departed import Departed
from coordinator.control.clock.group_times import GroupTimes
from coordinator.group.view import GroupView

INTERVAL_S: Final = 0.25


class GoneWatch:
    """Looks now and then, as long as there is such a group. Their sessions last in reality as long as else in group
    time, from when they were heard last: a client whose connection is made anew has that long to come back."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        departed: Departed,
        times: GroupTimes,
        groups: Callable[[], Iterable[GroupView]],
        process_ms: Callable[[], int],
        expire: Callable[[str, str], None],
    ) -> None:
        """In: what gives the groups, and the monotonic time; what takes group and member id of a session to end."""
        self._loop = loop
        self._departed = departed
        self._times = times
        self._groups = groups
        self._process_ms = process_ms
        self._expire = expire
        self._handle: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """There is such a group."""
        if self._handle is None:
            self._look()

    def stop(self) -> None:
        """It looks no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        if self._is_wanted():
            self._handle = self._loop.call_later(INTERVAL_S, self._look)
            for view in list(self._groups()):
                self._end_sessions(view)

    def _is_wanted(self) -> bool:
        times = self._times
        default = [] if times.default is None else [times.default]
        return any(time.lets_gone_go for time in [*times.own.values(), *default])

    def _end_sessions(self, view: GroupView) -> None:
        now_ms, gone = self._process_ms(), self._departed.of(view)
        sessions = {member.name.member_id: member.session_timeout_ms for member in view.members}
        sessions |= {pending.name.member_id: pending.since_ms + pending.left_ms for pending in view.pending}
        self._times.forget_others(view.group_id, set(sessions))
        for member_id, session_ms in sessions.items():
            heard_ms = self._times.heard_ms(view.group_id, member_id)
            if heard_ms is None:
                self._times.hear(view.group_id, member_id, now_ms)
            elif member_id in gone and now_ms - heard_ms >= session_ms:
                self._expire(view.group_id, member_id)
