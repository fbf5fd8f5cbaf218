"""Containers without an engine: an image laid out from its Dockerfile, in namespaces of Linux. Needs root."""
