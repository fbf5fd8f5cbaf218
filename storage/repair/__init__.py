"""Saving what is whole of a damaged log. `repair.py` says what that is."""
