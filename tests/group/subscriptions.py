"""Metadata that consumers send when they join."""

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer of these topics."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 1)
