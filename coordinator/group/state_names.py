"""The states of groups of any type, by the names that people read and write."""

from typing import Final

from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.state import ClassicGroupState

STATE_NAMES: Final = list(
    dict.fromkeys(state.value for states in (ClassicGroupState, ConsumerGroupState) for state in states)
)
"""Those of classic groups first."""
