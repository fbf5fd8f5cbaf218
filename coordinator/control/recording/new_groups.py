"""Stands in front of a shard while every group that comes into being is recorded: nearest to it, as the taps are,
which it puts behind itself, one for each such group, before the shard has the request that may make the group.

It is made anew with each shard of the partition; the recordings outlive it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.control.recording.cut import groups_of
from coordinator.control.recording.recording import Recording
from coordinator.control.recording.tap import Tap
from coordinator.group.in_front import InFront
from coordinator.group.requests import Request
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context, Now, Outcome
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_MAKE_GROUPS: Final = (
    JoinGroupRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)

Begin = Callable[[Shard, str, Now], Recording | None]
"""Begins the recording of a group, if there is not one already and there may be one more. Raises nothing."""


class NewGroups(InFront):
    """See the top of this file."""

    __slots__ = ("_begin",)

    def __init__(self, behind: Shard, begin: Begin, recordings: Iterable[Recording]) -> None:
        """In: who begins recordings; those of groups of this partition that go on."""
        super().__init__(behind)
        self._begin = begin
        for recording in recordings:
            self.behind = Tap(self.behind, recording)
        self.beat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """See `Shard`."""
        if isinstance(request, _MAKE_GROUPS) and not self._knows(request.group_id):
            recording = self._begin(self.behind, request.group_id, now)
            if recording is not None:
                self.behind = Tap(self.behind, recording)
        return self.behind.handle(request, context, now)

    def _knows(self, group_id: str) -> bool:
        groups = groups_of(self)
        return group_id in groups.by_id or group_id in groups.durable

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        return self.behind.beat(request, context, monotonic_ms)
