"""Replays of recordings, with the recorded inputs or with changed ones."""
