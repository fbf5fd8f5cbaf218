"""Consumer groups of KIP-848: the protocol of ConsumerGroupHeartbeat."""
