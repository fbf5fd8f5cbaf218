"""Tests under bad conditions: one processor, busy neighbours and a wall clock that steps."""
