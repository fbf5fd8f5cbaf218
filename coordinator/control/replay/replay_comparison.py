"""Plays a recording, compares each outcome with the recorded one field by field, and describes the first
difference.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import json

from coordinator.control.recording.json_codec import Json
from coordinator.control.replay.recording_file import RecordingFile
from coordinator.control.replay.recording_player import NewShard, PlayedInput, RecordingPlayer
from coordinator.core.message_text import format_count, format_list, printable
from coordinator.core.outcome import Outcome
from coordinator.group.group_event_types import EpochBumped, GroupStabilized
from coordinator.group.group_shard import GroupShard

GENERATIONS: Final = (GroupStabilized, EpochBumped)
"""The events with which a generation or an epoch begins."""
_MAX_MEMBERS: Final = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison: the numbers of inputs and of generations or epochs, and `different`, the
    first input with another outcome, or None. `player` has the final state."""

    inputs: int
    generations: int
    different: PlayedInput | None
    player: RecordingPlayer


def compare_recording(
    recorded: RecordingFile,
    new_shard: NewShard = GroupShard,
    until: int | None = None,
    on_played: Callable[[RecordingPlayer, PlayedInput], None] = lambda *_: None,
) -> Comparison:
    """Play a recording up to the first difference, or up to input `until`. `on_played` is called after each line.
    Raises BadRecording.
    """
    player, inputs, generations = RecordingPlayer(recorded, new_shard), 0, 0
    for line in recorded.lines:
        if until is not None and line.number > until:
            break
        played = player.play_line(line)
        on_played(player, played)
        inputs += line.count
        generations += count_generations(played.outcome, recorded.group_id)
        if not played.is_same:
            return Comparison(inputs, generations, played, player)
    return Comparison(inputs, generations, None, player)


def count_generations(outcome: Outcome | None, group_id: str) -> int:
    """Return the number of generations, or epochs, that began with an outcome."""
    events = () if outcome is None else outcome.events
    return sum(isinstance(event, GENERATIONS) and event.group_id == group_id for event in events)


def format_comparison(comparison: Comparison) -> str:
    """Return the text of a comparison."""
    if comparison.different is None:
        return f"identical: {format_counts(comparison.inputs, comparison.generations)}"
    return format_difference(comparison.different)


def format_counts(inputs: int, generations: int) -> str:
    """Format the numbers of inputs and generations."""
    return f"{format_count(inputs, 'input')}, {format_count(generations, 'generation')}"


def format_difference(played: PlayedInput) -> str:
    """Describe an input with a different outcome, and the differences."""
    head = f"input {played.line.number} ({format_input(played)}) has another outcome:"
    return "\n".join(
        [head, *(f"  {line}" for line in list_differences(played.line.outcome, played.outcome_fields))]
    )


def format_input(played: PlayedInput) -> str:
    """Describe an input in a few words."""
    fields = played.line.fields
    match played.line.kind:
        case "request" | "beat":
            context = fields.get("context")
            sender = context.get("client_id") if isinstance(context, dict) else None
            name = str(fields[played.line.kind]).removesuffix("Request")
            return f"{name} of {printable(str(sender))}" if sender else name
        case "fire":
            return " ".join(filter(None, ("fire", fields["fire"], printable(fields["member_id"]))))
    return played.line.kind


def format_state(comparison: Comparison) -> str:
    """Format the state of the group after the last played input."""
    player = comparison.player
    view = player.shard.view_group(player.group_id, player.last_now)
    name = printable(player.group_id)
    if view is None:
        return f"after input {comparison.inputs}: group {name} does not exist"
    names = [printable(member.name.client_id) for member in view.members]
    who = f": {format_list(names[:_MAX_MEMBERS], len(names))}" if names else ""
    members = format_count(len(names), "member")
    state = f"{view.state}, generation {view.generation_id}"
    return f"after input {comparison.inputs}: {name} is {state}, {members}{who}"


ABSENT: Final = object()
_MAX_SHOWN: Final = 300
_MAX_LINES: Final = 50


def list_differences(recorded: Json, here: Json) -> list[str]:
    """Return a line for each field that differs: its path, the recorded value, the value here."""
    lines = list(_iterate_differences(recorded, here, ""))
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], f"and {len(lines) - _MAX_LINES} more"]


def _iterate_differences(recorded: Json, here: Json, path: str) -> Iterator[str]:
    if recorded == here and type(recorded) is type(here):
        return
    if isinstance(recorded, dict) and isinstance(here, dict):
        if recorded.get("$") != here.get("$"):
            yield _format_line(path, recorded, here)
            return
        for name in dict.fromkeys((*recorded, *here)):
            inner = path if name.startswith("$") else f"{path}.{name}".removeprefix(".")
            yield from _iterate_differences(recorded.get(name, ABSENT), here.get(name, ABSENT), inner)
    elif isinstance(recorded, list) and isinstance(here, list):
        for place in range(max(len(recorded), len(here))):
            one = recorded[place] if place < len(recorded) else ABSENT
            other = here[place] if place < len(here) else ABSENT
            yield from _iterate_differences(one, other, f"{path}[{place}]")
    else:
        yield _format_line(path, recorded, here)


def _format_line(path: str, recorded: Json, here: Json) -> str:
    return f"{path}: recorded {_format_value(recorded)}, here {_format_value(here)}"


def _format_value(value: Json) -> str:
    if value is ABSENT:
        return "nothing"
    text = json.encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
