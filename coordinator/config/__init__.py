"""The configuration of the daemon: Kafka's properties, their sources, their values and their checks."""
