"""Handlers of Kafka's APIs: they authorize each request and pass it to its group, transaction or topic."""
