"""The journal: what was acknowledged and is not in a synced segment yet."""
