"""Why a start cannot be."""


class ConfigError(Exception):
    """A property, a flag or a file of properties that stops the start. The text names it, in one line."""
