"""Faults as rules on the state of groups, over real sockets."""
