"""Why a start cannot be."""


class ConfigError(Exception):
    """A property, a flag or a file of properties that stops the start. The text names it, in one line.

    `names` are the properties at fault, as far as they are known.
    """

    def __init__(self, text: str, *names: str) -> None:
        super().__init__(one_line(text))
        self.names = names


def contradiction(name: str, value: int, how: str, other_name: str, other: int) -> ConfigError:
    """What is wrong with two values that do not go together: how the first one is to the other."""
    return ConfigError(f"{name} ({value}) {how} {other_name} ({other})", name, other_name)


def one_line(text: str) -> str:
    """The text without what could end the line, or steer a terminal: that is escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
