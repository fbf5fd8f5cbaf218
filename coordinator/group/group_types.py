"""The types of groups, and the states of groups of any type by their names.

Source: Kafka's `Group.GroupType`.
"""

from enum import StrEnum
from typing import Final

from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState


class GroupType(StrEnum):
    """A type of group; its value is its name in ListGroups. groupd supports only classic and consumer groups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


STATE_NAMES: Final = list(
    dict.fromkeys(state.value for states in (ClassicGroupState, ConsumerGroupState) for state in states)
)
"""The states of classic groups come first."""
