"""Namespaces: further brokers in the daemon's process, each on its own port, for example for one test."""
