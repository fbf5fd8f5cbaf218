"""Which protocol a vote is for. Source: Kafka's `ClassicGroup.selectProtocol`, Java's `HashMap`."""

from collections.abc import Iterable, Mapping
from typing import Final

from protocol.partitioner import java_hash

_SMALLEST_TABLE: Final = 16


def elected(votes: Mapping[str, int]) -> str:
    """The protocol with the most votes; of several that one which comes first in Kafka's map of them.

    In: votes by protocol, at least one, in the order in which each was first voted for.
    """
    return max(_in_order_of_a_hash_map(votes), key=votes.__getitem__)


def _in_order_of_a_hash_map(names: Iterable[str]) -> list[str]:
    """The order in which Java iterates a HashMap that these were put into one by one: by slot, and within one as
    they came. (In Kafka votes come in the order of the members' random ids.)"""
    listed = list(names)
    slots = _SMALLEST_TABLE
    while len(listed) > slots * 3 // 4:
        slots *= 2
    return sorted(listed, key=lambda name: _spread(java_hash(name)) & (slots - 1))


def _spread(value: int) -> int:
    """Java mixes the upper half of a hash into the lower, which alone chooses the slot."""
    unsigned = value & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16
