"""Logs shared with Apache Kafka: Kafka's tool reads groupd's segments, and groupd serves the logs of its
brokers."""
