"""Interceptors that record groups of a shard: one group, or every new group.

`RecordedShard` records the calls as the machine gets them, with the time that a clock gives the group. The shard
gets the same calls as without it. A failure of the recording ends the recording and never reaches the caller.

`NewGroupRecorder` adds a `RecordedShard` for each new group, before the shard gets the request that may create
the group. It is created again with each shard of the partition; the recordings outlive it.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from coordinator.control.recording.group_recording import GroupRecording, restrict_request
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_requests import GroupTimerKey, Request
from coordinator.group.group_shard import GroupShard, ShardDecorator
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_LOG: Final = logging.getLogger("Control")

T = TypeVar("T")


class RecordedShard(ShardDecorator):
    """Records the calls of one group."""

    __slots__ = ("_recording",)

    def __init__(self, inner: GroupShard, recording: GroupRecording) -> None:
        super().__init__(inner)
        self._recording = recording
        self.try_heartbeat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        group_id = self._recording.group_id
        own = self._safely(lambda: restrict_request(self.inner, request, group_id))
        if own is None:
            return self.inner.handle(request, context, now)
        return self._recorded(
            lambda: self._recording.build_request_line(own, context, now),
            lambda: self.inner.handle(request, context, now),
            own,
        )

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        response = self.inner.try_heartbeat(request, context, monotonic_ms)
        if response is not None and request.group_id == self._recording.group_id:
            self._safely(lambda: self._recording.add_heartbeat(request, context, monotonic_ms, response))
        return response

    def fire_timer(self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        group_id = self._recording.group_id
        if key.group_id not in ("", group_id):
            return self.inner.fire_timer(key, now, time_source)
        group_now = None if time_source is None or key.group_id else time_source(group_id, now)
        return self._recorded(
            lambda: self._recording.build_timer_line(key, now, group_now),
            lambda: self.inner.fire_timer(key, now, time_source),
        )

    def on_loaded(self, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        group_now = None if time_source is None else time_source(self._recording.group_id, now)
        return self._recorded(
            lambda: self._recording.build_load_line(self.inner, now, group_now),
            lambda: self.inner.on_loaded(now, time_source),
        )

    def unload(self) -> list[tuple[int, object]]:
        """Unload the shard. The replies are not recorded, because their groups are unknown."""
        line = self._safely(self._recording.build_unload_line)
        replies = self.inner.unload()
        if line is not None:
            self._safely(lambda: self._recording.write_outcome(line, Outcome()))
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
                self._safely(lambda: self._recording.write_error(line, raised))
            raise
        if line is not None:
            self._safely(lambda: self._recording.write_outcome(line, outcome, request))
        return outcome

    def _safely(self, do: Callable[[], T]) -> T | None:
        if self._recording.end_reason:
            return None
        try:
            return do()
        except Exception as problem:  # noqa: BLE001 - the group goes on, recorded or not
            _LOG.error("Failed to record group %s", printable(self._recording.group_id), exc_info=problem)
            self._recording.end_recording("groupd failed to record it; the daemon's log has the reason")
            return None


_MAKE_GROUPS: Final = (
    JoinGroupRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)

RecordingStarter = Callable[[GroupShard, str, Now], GroupRecording | None]
"""Starts the recording of a group, unless it has one or the limit is reached. Raises nothing."""


class NewGroupRecorder(ShardDecorator):
    """Starts a recording of each new group."""

    __slots__ = ("_begin",)

    def __init__(
        self, inner: GroupShard, begin: RecordingStarter, recordings: Iterable[GroupRecording]
    ) -> None:
        """Create an interceptor.

        Args:
            inner: The shard.
            begin: Begins the recording of a new group.
            recordings: The open recordings of groups of this partition.
        """
        super().__init__(inner)
        self._begin = begin
        for recording in recordings:
            self.inner = RecordedShard(self.inner, recording)
        self.try_heartbeat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if isinstance(request, _MAKE_GROUPS) and not self.knows_group(request.group_id):
            recording = self._begin(self.inner, request.group_id, now)
            if recording is not None:
                self.inner = RecordedShard(self.inner, recording)
        return self.inner.handle(request, context, now)

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        return self.inner.try_heartbeat(request, context, monotonic_ms)
