"""The journal: acknowledged records that are not in a synced segment yet."""
