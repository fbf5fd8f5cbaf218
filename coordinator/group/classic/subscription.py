"""Which topics the members of a consumer group read: the one thing that the coordinator looks up in the
metadata that members send for their leader."""

from collections.abc import Iterable

from protocol.consumer_protocol import subscribed_topics
from protocol.malformed import Malformed


def union_of_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions together; None when one of them is none, as custom assignors
    may send what they like."""
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(subscribed_topics(metadata))
        except Malformed:
            return None
    return frozenset(topics)
