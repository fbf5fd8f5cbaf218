"""Assembles a broker: handlers, periodic jobs, log lines, metrics, and internal topics."""
