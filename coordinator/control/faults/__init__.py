"""Faults as rules on the state of groups: what is delayed, held, answered otherwise, lost, refused."""
