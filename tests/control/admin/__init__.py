"""Offsets partitions that go away and come back."""
