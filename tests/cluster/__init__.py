"""Clusters: the pure cores of claims, sessions and appends, and the engine below them."""
