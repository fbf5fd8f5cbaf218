"""Failures on purpose, by the state of groups."""
