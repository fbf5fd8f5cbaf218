"""Bytes in order, durable and recoverable: Kafka's log format, and nothing that knows what a record means."""
