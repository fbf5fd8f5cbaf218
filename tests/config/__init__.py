"""Tests of what the daemon is told at its start."""
