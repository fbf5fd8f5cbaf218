"""The HTTP API below /v1: one file for each resource, each a list of routes."""
