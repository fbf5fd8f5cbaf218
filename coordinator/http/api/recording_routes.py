"""/v1/recordings: record the input of a group, or of every new group, and read it as a file."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct

from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import ProblemKind
from coordinator.control.recording.recording_registry import (
    DEFAULT_BYTES,
    MAX_BYTES,
    MAX_RECORDINGS,
    RecordingState,
)
from coordinator.core.message_text import printable
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute, Chunks, StreamRoute

_MIN_BYTES: Final = 1024


@wire_name("RecordingBody")
class RecordingBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recording. It ends by itself at `bytes` bytes."""

    bytes: Annotated[int, Meta(ge=_MIN_BYTES, le=MAX_BYTES)] = DEFAULT_BYTES


@wire_name("RecordingList")
class RecordingList(Struct, frozen=True, kw_only=True):
    """All recordings in the order of their start. `new_groups`: groupd records every new group. `unrecorded`
    counts the new groups that were not recorded because of the limit."""

    recordings: list[RecordingState]
    new_groups: bool
    unrecorded: int


async def start_recording(control: ControlPlane, call: ApiCall) -> RecordingState:
    """Record a group from now on. An existing recording continues."""
    return control.recordings.start_recording(call.path["group"], call.body.bytes, call.actor)


async def list_recordings(control: ControlPlane, call: ApiCall) -> RecordingList:
    """Return all recordings of the broker."""
    return _list_recordings(control)


async def record_new_groups(control: ControlPlane, call: ApiCall) -> RecordingList:
    """Record every new group from now on."""
    control.recordings.record_new_groups(call.body.bytes, call.actor)
    return _list_recordings(control)


async def drop_all_recordings(control: ControlPlane, call: ApiCall) -> None:
    """End and discard all recordings, and do not record new groups."""
    control.recordings.delete_all(call.actor)


def _list_recordings(control: ControlPlane) -> RecordingList:
    recordings = control.recordings
    return RecordingList(
        recordings=recordings.list_recordings(),
        new_groups=recordings.records_new_groups,
        unrecorded=recordings.unrecorded_count,
    )


async def drop_recording(control: ControlPlane, call: ApiCall) -> None:
    """End and discard the recording of a group."""
    control.recordings.delete_recording(call.path["group"], call.actor)


async def download_recording(control: ControlPlane, call: ApiCall) -> Chunks:
    """Return the file of a recording in its current state. Raises Problem (no-such-recording)."""
    return _iterate_chunks(control.recordings.pieces(call.path["group"]))


async def _iterate_chunks(pieces: Iterator[bytes]) -> Chunks:
    for piece in pieces:
        yield piece


def format_recording(state: RecordingState) -> str:
    """Return the line of a recording."""
    how = "goes on" if state.ended is None else f"has ended: {state.ended}"
    from_what = "a new group" if state.starts == "empty" else "the existing group"
    size = f"{state.bytes} of {state.most_bytes} bytes"
    return f"{printable(state.group_id)}: {state.inputs} inputs, {size}, from {from_what}; it {how}."


def _format_list(answer: RecordingList) -> str:
    lines = [format_recording(state) for state in answer.recordings]
    if answer.new_groups:
        beside = (
            f"; {answer.unrecorded} were not, because of the limit of {MAX_RECORDINGS}"
            if answer.unrecorded
            else ""
        )
        lines.append(f"Every new group is recorded{beside}.")
    return "\n".join(lines) or "No recordings."


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/recordings",
        summary="The recorded groups",
        command="record",
        handle=list_recordings,
        answer=RecordingList,
        text=_format_list,
    ),
    ApiRoute(
        method="PUT",
        path="/recordings",
        summary="Record every new group",
        command="record",
        handle=record_new_groups,
        body=RecordingBody,
        answer=RecordingList,
        text=_format_list,
        changes=True,
    ),
    ApiRoute(
        method="DELETE",
        path="/recordings",
        summary="End and discard all recordings",
        command="record",
        handle=drop_all_recordings,
        changes=True,
    ),
    ApiRoute(
        method="PUT",
        path="/recordings/{group}",
        summary="Record the input of a group, for groupd replay",
        command="record",
        handle=start_recording,
        body=RecordingBody,
        answer=RecordingState,
        text=format_recording,
        changes=True,
        problems=(ProblemKind.LOADING, ProblemKind.TOO_MANY, ProblemKind.NOT_POSSIBLE),
    ),
    ApiRoute(
        method="DELETE",
        path="/recordings/{group}",
        summary="End and discard the recording of a group",
        command="record",
        handle=drop_recording,
        changes=True,
        problems=(ProblemKind.NO_SUCH_RECORDING,),
    ),
)

STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/recordings/{group}",
        summary="The current recording of a group, one input per line",
        command="record",
        open_stream=download_recording,
        content_type="application/x-ndjson",
        is_endless=False,
        problems=(ProblemKind.NO_SUCH_RECORDING,),
    ),
)
