"""What the daemon is told at its start: Kafka's properties, where they come from, and what they mean."""
