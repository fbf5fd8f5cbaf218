"""Recordings of groups: the inputs of a group and their outcomes, one line for each input."""
