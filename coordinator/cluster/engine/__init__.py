"""The replicated map below a cluster: what is asked of it, and who answers."""
