"""The journal: its bytes, its files, and the valid entries after a crash."""
