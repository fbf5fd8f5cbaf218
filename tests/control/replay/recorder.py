"""Simulated runs with recorded groups, from their creation or later."""

from collections.abc import Callable
from typing import Any

from coordinator.control.recording.group_recording import GroupRecording
from coordinator.control.recording.recorded_shard import RecordedShard
from coordinator.control.replay.recording_file import RecordingFile, read_recording
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_requests import Request
from coordinator.group.group_shard import GroupShard, ShardDecorator

BYTES = 64 * 1024 * 1024
START = Now(0, 1_700_000_000_000)


class Recorder:
    """Creates shards, as `GroupShard` does, and records their groups through all reloads. Each recording begins
    after a number of requests.
    """

    def __init__(
        self,
        group_ids: tuple[str, ...],
        begins_after: int = 0,
        new_shard: Callable[..., GroupShard] = GroupShard,
    ):
        self._group_ids = group_ids
        self._left = begins_after
        self._new_shard = new_shard
        self.recordings: list[GroupRecording] = []

    def __call__(self, *arguments: Any) -> GroupShard:
        return _RecordingShard(self._new_shard(*arguments), self)

    def taps(self, shard: GroupShard, *, is_request: bool) -> GroupShard | None:
        """A shard that is recorded; None where it is too early."""
        self._left -= is_request
        if self._left > 0:
            return None
        if not self.recordings:
            self.recordings = [GroupRecording(name, shard, START, BYTES) for name in self._group_ids]
        for recording in self.recordings:
            shard = RecordedShard(shard, recording)
        return shard

    def recorded(self) -> list[RecordingFile]:
        """The recordings as they are read from their files."""
        return [read_recording(lines_of(recording)) for recording in self.recordings]


class _RecordingShard(ShardDecorator):
    __slots__ = ("_is_tapped", "_recorder")

    def __init__(self, inner: GroupShard, recorder: Recorder) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._is_tapped = False
        self._tap(is_request=False)

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        self._tap(is_request=True)
        return super().handle(request, context, now)

    def _tap(self, *, is_request: bool) -> None:
        tapped = None if self._is_tapped else self._recorder.taps(self.inner, is_request=is_request)
        if tapped is not None:
            self.inner, self.try_heartbeat, self._is_tapped = tapped, tapped.try_heartbeat, True


def lines_of(recording: GroupRecording) -> list[bytes]:
    """The lines of its file."""
    return b"".join(recording.pieces()).splitlines(keepends=True)
