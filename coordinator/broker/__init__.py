"""Puts a broker together: handlers, periodic jobs, log lines, metrics, and the topics that it keeps for itself."""
