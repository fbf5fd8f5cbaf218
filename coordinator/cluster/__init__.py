"""Ownership of coordinator partitions by one broker, several in one process, or members of an etcd cluster."""
