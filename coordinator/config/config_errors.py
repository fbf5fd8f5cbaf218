"""Why a start cannot be."""

from coordinator.printable_text import escape_unprintable


class ConfigError(Exception):
    """A property, a flag or a file of properties that stops the start. The text names it, in one line.

    `names` are the properties at fault, as far as they are known.
    """

    def __init__(self, text: str, *names: str) -> None:
        super().__init__(escape_unprintable(text))
        self.names = names


def contradiction(name: str, value: int, how: str, other_name: str, other: int) -> ConfigError:
    """What is wrong with two values that do not go together: how the first one is to the other."""
    return ConfigError(f"{name} ({value}) {how} {other_name} ({other})", name, other_name)
