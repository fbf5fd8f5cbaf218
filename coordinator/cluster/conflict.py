"""Why the cluster does not take what one broker changes of topics."""


class Refused(OSError):
    """Another broker has changed the same, or the engine cannot be asked."""


class Exists(Refused):
    """Another broker has just made a topic of that name."""
