"""The sessions, by subject."""
