"""The assignors of the broker: who gets which partitions, by the name that a member asks for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from coordinator.group.modern.assignors.assignor import Assignor
from coordinator.group.modern.assignors.range import assign_range
from coordinator.group.modern.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_range}
)
"""In the order of Kafka's `group.consumer.assignors`, whose first is the default."""
