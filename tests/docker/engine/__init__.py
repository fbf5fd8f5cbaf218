"""The part of a container engine's API that the modules of Testcontainers call, on a machine without an engine."""
