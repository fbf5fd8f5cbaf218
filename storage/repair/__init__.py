"""Saving what is whole of a damaged log. `storage/repair/repair.py` says what that is."""
