"""groupd: a standalone Kafka group coordinator."""
