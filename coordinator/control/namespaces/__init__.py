"""Namespaces: whole brokers in the daemon's process, each on a port of its own, for as long as a test."""
