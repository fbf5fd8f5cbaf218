"""Diagnosis of groups: findings, oracles that detect violations, waits for a state, and timelines."""
