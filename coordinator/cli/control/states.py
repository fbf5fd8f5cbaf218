"""The states of a group, and their colours."""

from typing import Final

from coordinator.group.state import ClassicGroupState

STATES: Final = [state.value for state in ClassicGroupState]
STYLES: Final = {
    "Stable": "green",
    "Empty": "cyan",
    "Dead": "red",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
}


def state_style(state: str) -> str:
    """How a state is shown at a terminal."""
    return STYLES.get(state, "")
