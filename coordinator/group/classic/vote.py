"""Which protocol a vote is for. Source: Kafka's `ClassicGroup.selectProtocol`."""

from collections.abc import Mapping

from coordinator.group.modern.java_order import HashOrder, mixed_string


def elected(votes: Mapping[str, int]) -> str:
    """The protocol with the most votes; of several that one which comes first in Kafka's map of them.

    In: votes by protocol, at least one, in the order in which each was first voted for. (In Kafka votes come in the
    order of the members' random ids.)
    """
    return max(HashOrder(mixed_string, keys=votes), key=votes.__getitem__)
