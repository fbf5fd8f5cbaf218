"""Durable and recoverable logs in Kafka's format. This package does not know the meaning of a record."""
