"""The metadata of consumers in JoinGroup."""

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription


def subscription(*topics: str) -> bytes:
    """Return the metadata of a consumer that subscribes to these topics."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 1)
