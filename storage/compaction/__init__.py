"""Rewriting a log so that each key keeps its latest record. `compaction.py` explains how."""
