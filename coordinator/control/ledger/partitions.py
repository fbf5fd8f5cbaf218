"""Who had and got which partitions, read from the bytes of the consumer protocol. What others send is not read."""

from collections.abc import Mapping
from typing import Final

from coordinator.control.ledger.names import shown
from coordinator.control.member_bytes import assigned_partitions
from protocol.consumer_protocol import PROTOCOL_TYPE

Owned = Mapping[str, frozenset[int]]
"""Partitions by topic."""
NOTHING: Final[Owned] = {}

MAX_BYTES: Final = 65_536
"""Longer assignments are not looked into: decoding them would keep others waiting."""
MAX_BYTES_OF_ALL: Final = 1_048_576
"""The same of those of one generation together."""
MAX_NAMED: Final = 2_000
"""Partitions that an entry names; the others are counted."""


def partitions_of(data: bytes, protocol_type: str | None) -> Owned | None:
    """The partitions of an assignment; None where it is none of the consumer protocol's."""
    if not data:
        return NOTHING
    if protocol_type != PROTOCOL_TYPE or len(data) > MAX_BYTES:
        return None
    partitions = assigned_partitions(data)
    if partitions is None:
        return None
    return {topic: frozenset(numbers) for topic, numbers in partitions.items()}


def without(owned: Owned, others: Owned) -> Owned:
    """Those that are not among the others."""
    if not others:
        return owned
    left = {topic: numbers - others.get(topic, frozenset()) for topic, numbers in owned.items()}
    return {topic: numbers for topic, numbers in left.items() if numbers}


def count_of(owned: Owned) -> int:
    """How many they are."""
    return sum(map(len, owned.values()))


class Naming:
    """Names partitions until there are enough names."""

    def __init__(self) -> None:
        self._left = MAX_NAMED

    def names(self, owned: Owned) -> list[str]:
        """`orders-2`, in order."""
        return [f"{topic}-{number}" for topic, numbers in self.by_topic(owned).items() for number in numbers]

    def by_topic(self, owned: Owned) -> dict[str, list[int]]:
        """The numbers, in order."""
        named: dict[str, list[int]] = {}
        for topic, numbers in sorted(owned.items()):
            some = sorted(numbers)[: self._left]
            self._left -= len(some)
            if some:
                named[shown(topic)] = some
        return named
