"""/v1/recordings: what a group, or every new group, is told, recorded from now on, and read as a file."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct

from coordinator.console.api.route import ApiRoute, Call, Pieces, StreamRoute
from coordinator.control.control import Control
from coordinator.control.problem import ProblemKind
from coordinator.control.recording.recordings import MOST, MOST_BYTES, USUAL_BYTES, RecordingState
from coordinator.net.peer import printable

_LEAST_BYTES: Final = 1024


class RecordingBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After so many bytes the recording ends by itself."""

    bytes: Annotated[int, Meta(ge=_LEAST_BYTES, le=MOST_BYTES)] = USUAL_BYTES


class RecordingList(Struct, frozen=True, kw_only=True):
    """Every recording, in the order in which they were begun; whether every group that comes into being is
    recorded, and how many were not, because there were too many."""

    recordings: list[RecordingState]
    new_groups: bool
    unrecorded: int


async def start(control: Control, call: Call) -> RecordingState:
    """Records a group from now on; one that is recorded already goes on."""
    return control.recordings.start(call.path["group"], call.body.bytes, call.actor)


async def list_all(control: Control, call: Call) -> RecordingList:
    """Answers GET /recordings."""
    return _listed(control)


async def start_new_groups(control: Control, call: Call) -> RecordingList:
    """Records every group that comes into being from now on."""
    control.recordings.start_new_groups(call.body.bytes, call.actor)
    return _listed(control)


async def drop_all(control: Control, call: Call) -> None:
    """Records nothing any more, and forgets what was recorded."""
    control.recordings.drop_all(call.actor)


def _listed(control: Control) -> RecordingList:
    recordings = control.recordings
    return RecordingList(
        recordings=recordings.all(),
        new_groups=recordings.records_new_groups,
        unrecorded=recordings.unrecorded,
    )


async def drop(control: Control, call: Call) -> None:
    """Records a group no more, and forgets what was recorded."""
    control.recordings.drop(call.path["group"], call.actor)


async def download(control: Control, call: Call) -> Pieces:
    """The file of a recording, as it is now. Raises Problem (no-such-recording)."""
    return _pieces(control.recordings.pieces(call.path["group"]))


async def _pieces(pieces: Iterator[bytes]) -> Pieces:
    for piece in pieces:
        yield piece


def recording_text(state: RecordingState) -> str:
    """One line."""
    how = "goes on" if state.ended is None else f"has ended: {state.ended}"
    from_what = "a new group" if state.starts == "empty" else "the group as it was"
    size = f"{state.bytes} of {state.most_bytes} bytes"
    return f"{printable(state.group_id)}: {state.inputs} inputs, {size}, from {from_what}; it {how}."


def _list_text(answer: RecordingList) -> str:
    lines = [recording_text(state) for state in answer.recordings]
    if answer.new_groups:
        beside = f"; {answer.unrecorded} were not, since there were {MOST}" if answer.unrecorded else ""
        lines.append(f"Every new group is recorded{beside}.")
    return "\n".join(lines) or "Nothing is recorded."


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/recordings",
        summary="Which groups are recorded",
        handle=list_all,
        answer=RecordingList,
        text=_list_text,
    ),
    ApiRoute(
        method="PUT",
        path="/recordings",
        summary="Record every group that comes into being from now on",
        handle=start_new_groups,
        body=RecordingBody,
        answer=RecordingList,
        text=_list_text,
        changes=True,
    ),
    ApiRoute(
        method="DELETE",
        path="/recordings",
        summary="Record nothing any more, and forget what was recorded",
        handle=drop_all,
        changes=True,
    ),
    ApiRoute(
        method="PUT",
        path="/recordings/{group}",
        summary="Record all that a group is told from now on, to be played again by groupd replay",
        handle=start,
        body=RecordingBody,
        answer=RecordingState,
        text=recording_text,
        changes=True,
        problems=(ProblemKind.LOADING, ProblemKind.TOO_MANY, ProblemKind.NOT_POSSIBLE),
    ),
    ApiRoute(
        method="DELETE",
        path="/recordings/{group}",
        summary="Record a group no more, and forget what was recorded",
        handle=drop,
        changes=True,
        problems=(ProblemKind.NO_SUCH_RECORDING,),
    ),
)

STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/recordings/{group}",
        summary="The recording of a group as it is now, one input a line",
        open=download,
        content_type="application/x-ndjson",
        is_endless=False,
        problems=(ProblemKind.NO_SUCH_RECORDING,),
    ),
)
