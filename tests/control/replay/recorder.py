"""Simulated runs whose groups are recorded: from their beginning, or from the middle of their lives."""

from collections.abc import Callable
from typing import Any

from coordinator.control.recording.recording import Recording
from coordinator.control.recording.tap import Tap
from coordinator.control.replay.recorded import Recorded, read
from coordinator.group.in_front import InFront
from coordinator.group.requests import Request
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context, Now, Outcome

BYTES = 64 * 1024 * 1024
START = Now(0, 1_700_000_000_000)


class Recorder:
    """Makes shards, as `Shard` does, and records groups of them through all reloads. In: after how many requests
    each recording begins."""

    def __init__(
        self, group_ids: tuple[str, ...], begins_after: int = 0, new_shard: Callable[..., Shard] = Shard
    ):
        self._group_ids = group_ids
        self._left = begins_after
        self._new_shard = new_shard
        self.recordings: list[Recording] = []

    def __call__(self, *arguments: Any) -> Shard:
        return _Tapped(self._new_shard(*arguments), self)

    def taps(self, shard: Shard, *, is_request: bool) -> Shard | None:
        """A shard that is recorded; None where it is too early."""
        self._left -= is_request
        if self._left > 0:
            return None
        if not self.recordings:
            self.recordings = [Recording(name, shard, START, BYTES) for name in self._group_ids]
        for recording in self.recordings:
            shard = Tap(shard, recording)
        return shard

    def recorded(self) -> list[Recorded]:
        """The recordings as they are read from their files."""
        return [read(lines_of(recording)) for recording in self.recordings]


class _Tapped(InFront):
    __slots__ = ("_is_tapped", "_recorder")

    def __init__(self, behind: Shard, recorder: Recorder) -> None:
        super().__init__(behind)
        self._recorder = recorder
        self._is_tapped = False
        self._tap(is_request=False)

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        self._tap(is_request=True)
        return super().handle(request, context, now)

    def _tap(self, *, is_request: bool) -> None:
        tapped = None if self._is_tapped else self._recorder.taps(self.behind, is_request=is_request)
        if tapped is not None:
            self.behind, self.beat, self._is_tapped = tapped, tapped.beat, True


def lines_of(recording: Recording) -> list[bytes]:
    """The lines of its file."""
    return b"".join(recording.pieces()).splitlines(keepends=True)
