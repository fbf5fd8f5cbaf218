"""Brokers of this process: which own what; moved, stopped and started on purpose."""
