"""Runs pure machines over internal topics: between the clock, the timers, the log and whoever waits."""
