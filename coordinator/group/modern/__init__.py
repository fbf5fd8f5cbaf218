"""Computations of the newer group protocols: assignments, hashes of topics, orders. Independent of groups."""
