"""Errors in the configuration, which stop a start, and notices about it, which a start logs."""

from typing import NamedTuple

from coordinator.core.message_text import escape_unprintable


class ConfigError(Exception):
    """An invalid property, flag or properties file, which stops the start. The text names it in one line.

    `names` are the invalid properties, if known.
    """

    def __init__(self, text: str, *names: str) -> None:
        super().__init__(escape_unprintable(text))
        self.names = names


def create_contradiction(name: str, value: int, how: str, other_name: str, other: int) -> ConfigError:
    """Create the error for two contradictory values; `how` is the relation of the first to the second."""
    return ConfigError(f"{name} ({value}) {how} {other_name} ({other})", name, other_name)


class StartNotice(NamedTuple):
    """One line that a start logs: a warning with a problem and its remedy, or an information."""

    text: str
    is_warning: bool = True
