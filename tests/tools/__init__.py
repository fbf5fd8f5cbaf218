"""Kafka's own command-line tools against groupd."""
