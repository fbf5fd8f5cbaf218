"""Shared parts of the coordinator: the contract of pure machines, the process clock, the daemon's log, texts for
people, and shared types and names.
"""
