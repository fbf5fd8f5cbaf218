"""The recordings of a server: of a group, or of every group that comes into being. Nothing is recorded unless
somebody asked for it.

To be recorded does nothing to a group: it is a line in the log, and no act that the ledger would name beside what
came of it.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from coordinator import clock
from coordinator.control.asking import GroupAsker
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.partition import Partition
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Now
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


Front = Callable[[Shard], Shard]


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
    front: "partial[Tap] | None"
    """None for a recording that `NewGroups` has begun, and stands in front for."""


class Recordings:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(self, asker: GroupAsker) -> None:
        self._asker = asker
        self._placed: dict[str, _Placed] = {}
        self._new_groups: list[tuple[Partition[Shard], Front]] = []
        self.unrecorded = 0
        """New groups that were not recorded."""

    @property
    def records_new_groups(self) -> bool:
        """Whether every group that comes into being is recorded."""
        return bool(self._new_groups)

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

    def start_new_groups(self, most_bytes: int = USUAL_BYTES, by: str | None = None) -> None:
        """Records every group that comes into being from now on, as many as there may be recordings. In: after how
        many bytes each of them ends by itself."""
        if self._new_groups:
            return
        for partition in self._asker.partitions:
            front = partial(self._in_front_of_new, partition, most_bytes)
            partition.put_nearest(front)
            self._new_groups.append((partition, front))
        _LOG.info("Every new group is recorded%s", _said(by))

    def _in_front_of_new(self, partition: Partition[Shard], most_bytes: int, shard: Shard) -> Shard:
        from coordinator.control.recording.new_groups import NewGroups

        going_on = [
            placed.recording
            for placed in self._placed.values()
            if placed.front is None and placed.partition is partition
        ]
        return NewGroups(shard, partial(self._begin_new, partition, most_bytes), going_on)

    def _begin_new(
        self, partition: Partition[Shard], most_bytes: int, shard: Shard, group_id: str, now: Now
    ) -> "Recording | None":
        """See `NewGroups`."""
        from coordinator.control.recording.recording import Recording

        if group_id in self._placed:
            return None
        reason: Exception | None = None
        if len(self._placed) < MOST:
            try:
                recording = Recording(group_id, shard, now, most_bytes)
            except Exception as error:  # noqa: BLE001 - the group comes into being, recorded or not
                reason = error
            else:
                self._placed[group_id] = _Placed(recording, partition, None)
                return recording
        if not self.unrecorded:
            why = f"there are {MOST} recordings" if reason is None else "groupd failed at it"
            _LOG.warning("New group %s is not recorded: %s", printable(group_id), why, exc_info=reason)
        self.unrecorded += 1
        return None

    def all(self) -> list[RecordingState]:
        """Every recording, in the order in which they were begun."""
        self._clear_taps()
        return [_state(placed.recording) for placed in self._placed.values()]

    def pieces(self, group_id: str) -> Iterator[bytes]:
        """The file of a recording, as it is now. Raises Problem (no-such-recording)."""
        return self._find(group_id).recording.pieces()

    def drop(self, group_id: str, by: str | None = None) -> None:
        """Records a group no more, and forgets what was recorded. Raises Problem (no-such-recording)."""
        placed = self._find(group_id)
        del self._placed[group_id]
        self._take_away(placed)
        _LOG.info("The recording of group %s is deleted%s", printable(group_id), _said(by))

    def drop_all(self, by: str | None = None) -> None:
        """Records nothing any more, new groups neither, and forgets what was recorded."""
        self.close()
        _LOG.info("Nothing is recorded any more, and every recording is deleted%s", _said(by))

    def close(self) -> None:
        """Records nothing any more."""
        for partition, front in self._new_groups:
            partition.take_away(front)
        self._new_groups.clear()
        dropped, self._placed = self._placed, {}
        for placed in dropped.values():
            self._take_away(placed)
        self.unrecorded = 0

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
            if placed.recording.ended and placed.front is not None:
                self._take_away(placed)

    def _take_away(self, placed: _Placed) -> None:
        if placed.front is None:
            for partition, front in self._new_groups:
                if partition is placed.partition:  # it stands in front for those that are left
                    partition.take_away(front)
                    partition.put_nearest(front)
        elif placed.front in placed.partition.fronts:
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
