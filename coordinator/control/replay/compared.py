"""Whether a recording comes out here as it did there, in words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coordinator.control.replay.difference import differences
from coordinator.control.replay.player import NewShard, Played, Player
from coordinator.control.replay.recorded import Recorded
from coordinator.group.consumer.events import EpochBumped
from coordinator.group.events import GroupStabilized
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Outcome
from coordinator.net.peer import printable

GENERATIONS: Final = (GroupStabilized, EpochBumped)
"""What begins a generation, or an epoch."""
_MAX_MEMBERS: Final = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """So many inputs were played, in which so many generations, or epochs, began; `different` is the first of which
    something else came here than there, None where there is none. `player` is as it was left."""

    inputs: int
    generations: int
    different: Played | None
    player: Player


def compare(
    recorded: Recorded,
    new_shard: NewShard = Shard,
    until: int | None = None,
    hear: Callable[[Player, Played], None] = lambda *_: None,
) -> Comparison:
    """Plays a recording, up to the first difference, or up to an input. In: who hears of each line that was played.
    Raises BadRecording."""
    player, inputs, generations = Player(recorded, new_shard), 0, 0
    for line in recorded.lines:
        if until is not None and line.number > until:
            break
        played = player.play(line)
        hear(player, played)
        inputs += line.count
        generations += generations_in(played.outcome, recorded.group_id)
        if not played.is_same:
            return Comparison(inputs, generations, played, player)
    return Comparison(inputs, generations, None, player)


def generations_in(outcome: Outcome | None, group_id: str) -> int:
    """How many generations, or epochs, began with an outcome."""
    events = () if outcome is None else outcome.events
    return sum(isinstance(event, GENERATIONS) and event.group_id == group_id for event in events)


def comparison_text(comparison: Comparison) -> str:
    """What there is to say of it."""
    if comparison.different is None:
        return f"identical: {figures(comparison.inputs, comparison.generations)}"
    return difference_text(comparison.different)


def figures(inputs: int, generations: int) -> str:
    """So many of each."""
    return f"{_counted(inputs, 'input')}, {_counted(generations, 'generation')}"


def difference_text(played: Played) -> str:
    """An input of which something else came, and what."""
    head = f"input {played.line.number} ({described(played)}) comes out otherwise:"
    return "\n".join([head, *(f"  {line}" for line in differences(played.line.outcome, played.said))])


def described(played: Played) -> str:
    """What an input is, in a few words."""
    said = played.line.said
    match played.line.kind:
        case "request" | "beat":
            context = said.get("context")
            sender = context.get("client_id") if isinstance(context, dict) else None
            name = str(said[played.line.kind]).removesuffix("Request")
            return f"{name} of {printable(str(sender))}" if sender else name
        case "fire":
            return " ".join(filter(None, ("fire", said["fire"], printable(said["member_id"]))))
    return played.line.kind


def state_text(comparison: Comparison) -> str:
    """How the group is after the last input that was played."""
    player = comparison.player
    view = player.shard.view(player.group_id, player.last)
    name = printable(player.group_id)
    if view is None:
        return f"after input {comparison.inputs}: there is no group {name}"
    names = [printable(member.name.client_id) for member in view.members]
    more = f" and {len(names) - _MAX_MEMBERS} more" if len(names) > _MAX_MEMBERS else ""
    who = f": {', '.join(names[:_MAX_MEMBERS])}{more}" if names else ""
    members = _counted(len(names), "member")
    state = f"{view.state}, generation {view.generation_id}"
    return f"after input {comparison.inputs}: {name} is {state}, {members}{who}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
