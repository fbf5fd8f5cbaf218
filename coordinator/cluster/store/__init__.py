"""The logs of partitions in the engine: sealed pieces, what they are made of, and how they are read back."""
