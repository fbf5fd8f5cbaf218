"""Runs pure machines over internal topics: connects them with the clock, the timers, the log and the callers."""
