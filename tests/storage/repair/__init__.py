"""Repair of damaged logs."""
