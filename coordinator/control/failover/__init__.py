"""Failover: an offsets partition, and all groups in it, go away and come back, as when their coordinator moves."""
