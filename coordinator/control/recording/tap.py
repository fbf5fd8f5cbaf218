"""Stands in front of a shard while a group of it is recorded: nearest to it, so that a time that somebody else
gives the group is the time that is written down.

The shard is asked as without it, and nothing that fails here reaches whoever asks: the recording ends.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from coordinator.control.recording.inputs import about
from coordinator.control.recording.recording import Recording
from coordinator.group.group import NowOf
from coordinator.group.in_front import InFront
from coordinator.group.requests import Request
from coordinator.group.shard import Shard
from coordinator.group.timer_key import TimerKey
from coordinator.machine.outcome import Context, Now, Outcome
from coordinator.net.peer import printable

_LOG: Final = logging.getLogger("Control")

T = TypeVar("T")


class Tap(InFront):
    """See the top of this file."""

    __slots__ = ("_recording",)

    def __init__(self, behind: Shard, recording: Recording) -> None:
        super().__init__(behind)
        self._recording = recording
        self.beat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """See `Shard`."""
        group_id = self._recording.group_id
        own = self._safely(lambda: about(self.behind, request, group_id))
        if own is None:
            return self.behind.handle(request, context, now)
        return self._recorded(
            lambda: self._recording.request(own, context, now),
            lambda: self.behind.handle(request, context, now),
            own,
        )

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        response = self.behind.beat(request, context, monotonic_ms)
        if response is not None and request.group_id == self._recording.group_id:
            self._safely(lambda: self._recording.beat(request, context, monotonic_ms, response))
        return response

    def fire(self, key: TimerKey, now: Now, now_of: NowOf | None = None) -> Outcome:
        """See `Shard`."""
        group_id = self._recording.group_id
        if key.group_id not in ("", group_id):
            return self.behind.fire(key, now, now_of)
        group_now = None if now_of is None or key.group_id else now_of(group_id, now)
        return self._recorded(
            lambda: self._recording.fire(key, now, group_now),
            lambda: self.behind.fire(key, now, now_of),
        )

    def loaded(self, now: Now, now_of: NowOf | None = None) -> Outcome:
        """See `Shard`."""
        group_now = None if now_of is None else now_of(self._recording.group_id, now)
        return self._recorded(
            lambda: self._recording.load(self.behind, now, group_now),
            lambda: self.behind.loaded(now, now_of),
        )

    def unload(self) -> list[tuple[int, object]]:
        """See `Shard`. Whose answers are those of the group cannot be told: they are left out."""
        line = self._safely(self._recording.unload)
        replies = self.behind.unload()
        if line is not None:
            self._safely(lambda: self._recording.came(line, Outcome()))
        return replies

    def _recorded(
        self, write: Callable[[], dict[str, Any]], ask: Callable[[], Outcome], request: object = None
    ) -> Outcome:
        line = self._safely(write)
        try:
            outcome = ask()
        except Exception as problem:
            if line is not None:
                raised = problem
                self._safely(lambda: self._recording.raised(line, raised))
            raise
        if line is not None:
            self._safely(lambda: self._recording.came(line, outcome, request))
        return outcome

    def _safely(self, do: Callable[[], T]) -> T | None:
        if self._recording.ended:
            return None
        try:
            return do()
        except Exception as problem:  # noqa: BLE001 - the group goes on, recorded or not
            _LOG.error("Group %s cannot be recorded", printable(self._recording.group_id), exc_info=problem)
            self._recording.end("groupd failed at it; its log says how")
            return None
