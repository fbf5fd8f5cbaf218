"""The logs of partitions in the engine."""
