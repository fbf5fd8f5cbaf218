"""The end of a start."""


class StartFailed(Exception):
    """The daemon cannot start. The text says why, and what to do about it, in one line."""
