"""Arguments of tools with a subcommand, such as `kafka-cluster cluster-id -b HOST:PORT`. Source: argparse4j.

Options may stand before or behind the subcommand.
"""

from collections.abc import Mapping, Sequence

from coordinator.cli.kafka_tools.tool_errors import ToolFailure


def parse_subcommand(
    arguments: Sequence[str], values: Mapping[str, str], flags: Mapping[str, str], usage: str
) -> tuple[list[str], dict[str, str]]:
    """Return the positional arguments, and the options by name.

    In: names by option, for options with a value and for flags (their text is empty); the usage line. Raises
    ToolFailure for an option that is unknown or lacks its value.
    """
    words: list[str] = []
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word, equals, text = rest.pop(0).partition("=")
        if word in values:
            if not equals and not rest:
                raise ToolFailure(f"{usage}\nargument {word}: expected one argument")
            found[values[word]] = text if equals else rest.pop(0)
        elif word in flags:
            found[flags[word]] = ""
        elif word.startswith("-"):
            raise ToolFailure(
                f"{usage}\nunrecognized arguments: '{word}' (groupd's tool does not support it)"
            )
        else:
            words.append(word)
    return words, found
