"""A reassignment that is in progress: the replicas of a partition that are added, and those that are removed.

As in Kafka a partition has both kinds as replicas until all that are added live, and one lives that stays.
Source: KIP-455, Kafka's `PartitionReassignmentReplicas`, `PartitionReassignmentRevert`.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`replicas` are those that stay, those that are added and, at the end, those that are removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @classmethod
    def of(cls, current: Sequence[int], target: Sequence[int]) -> "Reassignment":
        """From one set of replicas to another, both in order of preference."""
        adding = tuple(each for each in target if each not in current)
        removing = tuple(each for each in current if each not in target)
        return cls((*target, *removing), adding, removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas where it is cancelled."""
        return tuple(each for each in self.replicas if each not in self.adding)

    def can_end(self, live: Container[int]) -> bool:
        """Whether nobody has to be waited for."""
        return all(each in live for each in self.adding) and any(each in live for each in self.target)
