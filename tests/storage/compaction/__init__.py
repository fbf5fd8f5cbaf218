"""Compaction of logs, also of damaged and of transactional ones."""
