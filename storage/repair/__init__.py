"""Saves the valid part of a damaged log, as `storage/repair/repair.py` defines it."""
