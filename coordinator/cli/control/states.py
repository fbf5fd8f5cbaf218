"""The states of a group, and their colours."""

from typing import Final

from coordinator.group.state_names import STATE_NAMES

STATES: Final = STATE_NAMES
STYLES: Final = {
    "Stable": "green",
    "Empty": "cyan",
    "Dead": "red",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
}


def state_style(state: str) -> str:
    """How a state is shown at a terminal."""
    return STYLES.get(state, "")
