"""The journal: its bytes, its files, and what counts after a crash."""
