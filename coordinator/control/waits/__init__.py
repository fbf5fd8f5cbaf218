"""Waits until a group is as somebody wants it, and says why it is not."""
