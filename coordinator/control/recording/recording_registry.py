"""The recordings of a server, of a group or of every new group. Recording is off by default.

A recording does not affect a group. It is a line in the log and not an operator action of the ledger.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from coordinator.control.group_client import InternalGroupClient
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.interceptors import InterceptorRank
from coordinator.core.message_text import printable
from coordinator.core.outcome import Now
from coordinator.core.wire_name import wire_name
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.coordinator_partition import CoordinatorPartition

if TYPE_CHECKING:
    from coordinator.control.recording.group_recording import GroupRecording
    from coordinator.control.recording.recorded_shard import RecordedShard

_LOG: Final = logging.getLogger("Control")

MAX_RECORDINGS: Final = 16
"""The maximum number of recordings, also of ended ones."""
DEFAULT_BYTES: Final = 4 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_OPERATOR: Final = 300


ShardInterceptor = Callable[[GroupShard], GroupShard]


@wire_name("RecordingState")
class RecordingState(Struct, frozen=True, kw_only=True):
    """The state of a recording. `starts` is "empty" if the group was new, else "snapshot". `inputs` and `bytes`
    are its current size. `ended` is the reason of its end, null while it continues. `started_ms` is Unix time."""

    group_id: str
    started_ms: int
    starts: str
    inputs: int
    bytes: int
    most_bytes: int
    ended: str | None


class _PlacedRecording(NamedTuple):
    recording: "GroupRecording"
    partition: CoordinatorPartition[GroupShard]
    interceptor: "partial[RecordedShard] | None"
    """None for a recording of a `NewGroupRecorder`, which is its interceptor."""


class RecordingRegistry:
    """The recordings of a server. All methods belong to the event loop's thread."""

    def __init__(self, group_client: InternalGroupClient) -> None:
        self._group_client = group_client
        self._placed: dict[str, _PlacedRecording] = {}
        self._new_groups: list[tuple[CoordinatorPartition[GroupShard], ShardInterceptor]] = []
        self.unrecorded_count = 0
        """The number of new groups that were not recorded because of the limit."""

    @property
    def records_new_groups(self) -> bool:
        """Whether groupd records every new group."""
        return bool(self._new_groups)

    def start_recording(
        self, group_id: str, most_bytes: int = DEFAULT_BYTES, by: str | None = None
    ) -> RecordingState:
        """Record a group from now on, which need not exist. An open recording continues.

        Raises:
            Problem: loading; too-many; not-possible if the current state of the group exceeds `most_bytes`.
        """
        placed = self._placed.get(group_id)
        if placed is not None:
            return _build_state(placed.recording)
        name = printable(group_id)
        if len(self._placed) >= MAX_RECORDINGS:
            detail = (
                f"{MAX_RECORDINGS} groups are already recorded, which is the limit: delete a recording first."
            )
            raise Problem(ProblemKind.TOO_MANY, "too many recordings", detail)
        partition = self._group_client.find_partition(group_id)
        assert partition.machine is not None
        # These modules are imported with the first recording.
        from coordinator.control.recording.group_recording import GroupRecording
        from coordinator.control.recording.recorded_shard import RecordedShard

        try:
            recording = GroupRecording(group_id, partition.machine, clock.now(), most_bytes)
        except ValueError as error:
            detail = f"{name} cannot be recorded: {error}."
            raise Problem(ProblemKind.NOT_POSSIBLE, "not recorded", detail) from error
        interceptor = partial(RecordedShard, recording=recording)
        partition.interceptors.add(InterceptorRank.RECORDER, interceptor)
        self._placed[group_id] = _PlacedRecording(recording, partition, interceptor)
        _LOG.info("The recording of group %s starts%s", name, _format_operator(by))
        return _build_state(recording)

    def record_new_groups(self, most_bytes: int = DEFAULT_BYTES, by: str | None = None) -> None:
        """Record every new group, up to the limit of recordings. `most_bytes` is the maximum size of each
        recording.
        """
        if self._new_groups:
            return
        for partition in self._group_client.partitions:
            interceptor = partial(self._intercept_shard, partition, most_bytes)
            partition.interceptors.add(InterceptorRank.RECORDER, interceptor)
            self._new_groups.append((partition, interceptor))
        _LOG.info("Every new group is recorded%s", _format_operator(by))

    def _intercept_shard(
        self, partition: CoordinatorPartition[GroupShard], most_bytes: int, shard: GroupShard
    ) -> GroupShard:
        from coordinator.control.recording.recorded_shard import NewGroupRecorder

        going_on = [
            placed.recording
            for placed in self._placed.values()
            if placed.interceptor is None and placed.partition is partition
        ]
        return NewGroupRecorder(shard, partial(self._start_new, partition, most_bytes), going_on)

    def _start_new(
        self,
        partition: CoordinatorPartition[GroupShard],
        most_bytes: int,
        shard: GroupShard,
        group_id: str,
        now: Now,
    ) -> "GroupRecording | None":
        from coordinator.control.recording.group_recording import GroupRecording

        if group_id in self._placed:
            return None
        reason: Exception | None = None
        if len(self._placed) < MAX_RECORDINGS:
            try:
                recording = GroupRecording(group_id, shard, now, most_bytes)
            except Exception as error:  # noqa: BLE001 - the group comes into being, recorded or not
                reason = error
            else:
                self._placed[group_id] = _PlacedRecording(recording, partition, None)
                return recording
        if not self.unrecorded_count:
            why = f"there are {MAX_RECORDINGS} recordings" if reason is None else "groupd failed to record it"
            _LOG.warning("New group %s is not recorded: %s", printable(group_id), why, exc_info=reason)
        self.unrecorded_count += 1
        return None

    def list_recordings(self) -> list[RecordingState]:
        """Return the state of every recording, in the order of their start."""
        self._remove_ended_interceptors()
        return [_build_state(placed.recording) for placed in self._placed.values()]

    def pieces(self, group_id: str) -> Iterator[bytes]:
        """Return the current content of the file of a recording. Raises Problem (no-such-recording)."""
        return self._find(group_id).recording.pieces()

    def delete_recording(self, group_id: str, by: str | None = None) -> None:
        """End and discard the recording of a group. Raises Problem (no-such-recording)."""
        placed = self._find(group_id)
        del self._placed[group_id]
        self._remove_interceptor(placed)
        _LOG.info("The recording of group %s is deleted%s", printable(group_id), _format_operator(by))

    def delete_all(self, by: str | None = None) -> None:
        """End and discard all recordings, and do not record new groups."""
        self.close()
        _LOG.info("All recordings are ended and deleted%s", _format_operator(by))

    def close(self) -> None:
        """End and discard all recordings."""
        for partition, interceptor in self._new_groups:
            partition.interceptors.remove(interceptor)
        self._new_groups.clear()
        dropped, self._placed = self._placed, {}
        for placed in dropped.values():
            self._remove_interceptor(placed)
        self.unrecorded_count = 0

    def _find(self, group_id: str) -> _PlacedRecording:
        self._remove_ended_interceptors()
        placed = self._placed.get(group_id)
        if placed is None:
            name = printable(group_id)
            detail = f"Recording {name} does not exist: PUT /v1/recordings/{name} starts one."
            raise Problem(ProblemKind.NO_SUCH_RECORDING, f"No recording of {name}", detail)
        return placed

    def _remove_ended_interceptors(self) -> None:
        """Remove the interceptors of recordings that have ended by themselves."""
        for placed in self._placed.values():
            if placed.recording.end_reason and placed.interceptor is not None:
                self._remove_interceptor(placed)

    def _remove_interceptor(self, placed: _PlacedRecording) -> None:
        interceptors = placed.partition.interceptors
        if placed.interceptor is None:
            for partition, interceptor in self._new_groups:
                if partition is placed.partition:  # other groups of the partition are still recorded
                    interceptors.remove(interceptor)
                    interceptors.add(InterceptorRank.RECORDER, interceptor)
        elif placed.interceptor in interceptors:
            interceptors.remove(placed.interceptor)


def _build_state(recording: "GroupRecording") -> RecordingState:
    return RecordingState(
        group_id=recording.group_id,
        started_ms=recording.started_ms,
        starts="empty" if recording.starts_empty else "snapshot",
        inputs=recording.inputs,
        bytes=recording.size_bytes,
        most_bytes=recording.most_bytes,
        ended=recording.end_reason or None,
    )


def _format_operator(by: str | None) -> str:
    return "" if by is None else f" by {printable(by, _MAX_OPERATOR)}"
