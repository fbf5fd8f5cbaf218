"""Whether a recording comes out here as it did there."""

from dataclasses import dataclass

from coordinator.control.replay.difference import differences
from coordinator.control.replay.player import NewShard, Played, Player
from coordinator.control.replay.recorded import Recorded
from coordinator.group.consumer.events import EpochBumped
from coordinator.group.events import GroupStabilized
from coordinator.group.shard import Shard

_GENERATIONS = (GroupStabilized, EpochBumped)


@dataclass(frozen=True, slots=True)
class Comparison:
    """So many inputs were played, in which so many generations, or epochs, began; `different` is the first of which
    something else came here than there, None where there is none."""

    inputs: int
    generations: int
    different: Played | None


def compare(recorded: Recorded, new_shard: NewShard = Shard, until: int | None = None) -> Comparison:
    """Plays a recording, up to the first difference, or up to an input. Raises BadRecording."""
    player, inputs, generations = Player(recorded, new_shard), 0, 0
    for line in recorded.lines:
        if until is not None and line.number > until:
            break
        played = player.play(line)
        inputs += line.count
        if played.outcome is not None:
            generations += sum(isinstance(event, _GENERATIONS) for event in played.outcome.events)
        if not played.is_same:
            return Comparison(inputs, generations, played)
    return Comparison(inputs, generations, None)


def comparison_text(comparison: Comparison) -> str:
    """What there is to say of it."""
    played = comparison.different
    if played is None:
        inputs, generations = comparison.inputs, comparison.generations
        return f"identical: {_counted(inputs, 'input')}, {_counted(generations, 'generation')}"
    lines = [f"input {played.line.number} ({described(played)}) comes out otherwise:"]
    return "\n".join([*lines, *(f"  {line}" for line in differences(played.line.outcome, played.said))])


def described(played: Played) -> str:
    """What an input is, in a few words."""
    said = played.line.said
    match played.line.kind:
        case "request" | "beat":
            sender = said["context"].get("client_id", "") if "context" in said else ""
            return f"{said[played.line.kind]}{f' of {sender}' if sender else ''}"
        case "fire":
            return " ".join(filter(None, ("fire", said["fire"], said["member_id"])))
    return played.line.kind


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
