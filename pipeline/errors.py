"""Errors with a cause outside of the pipeline."""


class BadInput(Exception):
    """An input is unusable. The one-line text names the path and the position, if any; the command exits with 2."""
