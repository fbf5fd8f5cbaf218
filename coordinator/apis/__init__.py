"""Handlers of Kafka's APIs: authorization of each request, and its way to the group, transaction or topic."""
