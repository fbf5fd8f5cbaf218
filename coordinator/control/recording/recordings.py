"""The recordings of a server: begun and dropped on request. Nothing is recorded unless somebody asked for it.

To be recorded does nothing to a group: it is a line in the log, and no act that the ledger would name beside what
came of it.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from coordinator import clock
from coordinator.control.asking import GroupAsker
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.partition import Partition
from coordinator.group.shard import Shard
from coordinator.net.peer import printable

if TYPE_CHECKING:
    from coordinator.control.recording.recording import Recording
    from coordinator.control.recording.tap import Tap

_LOG: Final = logging.getLogger("Control")

MOST: Final = 16
"""Recordings at a time, those that have ended included."""
USUAL_BYTES: Final = 4 * 1024 * 1024
MOST_BYTES: Final = 64 * 1024 * 1024
_MAX_SAID: Final = 300


class RecordingState(Struct, frozen=True, kw_only=True):
    """How a recording stands. `starts` is "empty" where the group was new, else "snapshot"; `inputs` and `bytes`
    are what there is so far, `ended` is why it has ended, null while it goes on; `started_ms` is Unix time."""

    group_id: str
    started_ms: int
    starts: str
    inputs: int
    bytes: int
    most_bytes: int
    ended: str | None


class _Placed(NamedTuple):
    recording: "Recording"
    partition: Partition[Shard]
    front: "partial[Tap]"


class Recordings:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(self, asker: GroupAsker) -> None:
        self._asker = asker
        self._placed: dict[str, _Placed] = {}

    def start(self, group_id: str, most_bytes: int = USUAL_BYTES, by: str | None = None) -> RecordingState:
        """Records a group from now on, there or not; one that is recorded already goes on. Raises Problem
        (loading, too-many, not-possible where the group as it is does not fit)."""
        placed = self._placed.get(group_id)
        if placed is not None:
            return _state(placed.recording)
        name = printable(group_id)
        if len(self._placed) >= MOST:
            detail = f"{MOST} groups are recorded already, and no more may be: delete a recording first."
            raise Problem(ProblemKind.TOO_MANY, "too many recordings", detail)
        partition = self._asker.partition_of(group_id)
        assert partition.machine is not None
        # What only a recording needs is imported with the first one.
        from coordinator.control.recording.recording import Recording
        from coordinator.control.recording.tap import Tap

        try:
            recording = Recording(group_id, partition.machine, clock.now(), most_bytes)
        except ValueError as error:
            detail = f"{name} cannot be recorded: {error}."
            raise Problem(ProblemKind.NOT_POSSIBLE, "not recorded", detail) from error
        front = partial(Tap, recording=recording)
        partition.put_nearest(front)
        self._placed[group_id] = _Placed(recording, partition, front)
        _LOG.info("The recording of group %s starts%s", name, _said(by))
        return _state(recording)

    def all(self) -> list[RecordingState]:
        """Every recording, in the order in which they were begun."""
        self._clear_taps()
        return [_state(placed.recording) for placed in self._placed.values()]

    def pieces(self, group_id: str) -> Iterator[bytes]:
        """The file of a recording, as it is now. Raises Problem (no-such-recording)."""
        return self._find(group_id).recording.pieces()

    def drop(self, group_id: str, by: str | None = None) -> None:
        """Records a group no more, and forgets what was recorded. Raises Problem (no-such-recording)."""
        self._take_away(self._find(group_id))
        del self._placed[group_id]
        _LOG.info("The recording of group %s is deleted%s", printable(group_id), _said(by))

    def close(self) -> None:
        """Records nothing any more."""
        for placed in self._placed.values():
            self._take_away(placed)
        self._placed.clear()

    def _find(self, group_id: str) -> _Placed:
        self._clear_taps()
        placed = self._placed.get(group_id)
        if placed is None:
            name = printable(group_id)
            detail = f"There is no recording of {name}: PUT /v1/recordings/{name} begins one."
            raise Problem(ProblemKind.NO_SUCH_RECORDING, f"No recording of {name}", detail)
        return placed

    def _clear_taps(self) -> None:
        """What has ended by itself does not stand in front any more."""
        for placed in self._placed.values():
            if placed.recording.ended:
                self._take_away(placed)

    @staticmethod
    def _take_away(placed: _Placed) -> None:
        if placed.front in placed.partition.fronts:
            placed.partition.take_away(placed.front)


def _state(recording: "Recording") -> RecordingState:
    return RecordingState(
        group_id=recording.group_id,
        started_ms=recording.started_ms,
        starts="empty" if recording.starts_empty else "snapshot",
        inputs=recording.inputs,
        bytes=recording.size_bytes,
        most_bytes=recording.most_bytes,
        ended=recording.ended or None,
    )


def _said(by: str | None) -> str:
    return "" if by is None else f" by {printable(by, _MAX_SAID)}"
