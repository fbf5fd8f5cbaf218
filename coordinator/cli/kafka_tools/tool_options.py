"""Options of Kafka's tools: declared in a table and parsed as Kafka's parser (jopt-simple) parses them, and
the options of tools with a subcommand, such as `kafka-cluster cluster-id -b HOST:PORT` (source: argparse4j).

An option is `--name VALUE` or `--name=VALUE`, with one hyphen or two. Names are not abbreviated. A value may
begin with a hyphen. Other arguments are ignored. The options of a subcommand may precede or follow it.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from coordinator.cli.kafka_tools.tool_errors import ToolFailure, UsageError
from coordinator.core.message_text import nearest_names

_BOOTSTRAP: Final = "bootstrap-server"
_REMOVED: Final = {
    "zookeeper": "groupd has no ZooKeeper. Use --bootstrap-server HOST:PORT",
    "authorizer-properties": "groupd has no ZooKeeper. Use --bootstrap-server HOST:PORT",
    "authorizer": "groupd has no ZooKeeper. Use --bootstrap-server HOST:PORT",
}
"""Advice for options that Kafka had before version 4."""


class OptionValueRule(Enum):
    """Whether an option has a value."""

    NOTHING = 0
    VALUE = 1
    OPTIONAL_VALUE = 2


class Support(Enum):
    """The support for an option of Kafka's tool."""

    FULL = "supported"
    IGNORED = "accepted, without effect"
    NONE = "not supported"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a tool."""

    name: str
    help: str = ""
    takes: OptionValueRule = OptionValueRule.NOTHING
    metavar: str = ""
    support: Support = Support.FULL
    stands_for: str = ""
    """The option for which this one is another name."""
    in_image_only: bool = False
    """Whether the option exists only in groupd's image. Elsewhere it is unknown, as in Kafka's tool."""


def flag(name: str, help_: str) -> Option:
    """Declare an option without a value."""
    return Option(name, help_)


def value(name: str, metavar: str, help_: str) -> Option:
    """Declare an option with a value."""
    return Option(name, help_, OptionValueRule.VALUE, metavar)


def optional_value(name: str, metavar: str, help_: str) -> Option:
    """Declare an option with an optional value."""
    return Option(name, help_, OptionValueRule.OPTIONAL_VALUE, metavar)


def ignored(name: str, metavar: str = "") -> Option:
    """Declare an option that tunes Kafka's Java client. It is accepted without effect."""
    takes = OptionValueRule.VALUE if metavar else OptionValueRule.NOTHING
    return Option(name, "Accepted, without effect.", takes, metavar, Support.IGNORED)


def unsupported(name: str, metavar: str = "") -> Option:
    """Declare an option of Kafka's tool that groupd's tool refuses."""
    takes = OptionValueRule.VALUE if metavar else OptionValueRule.NOTHING
    return Option(name, "Not supported.", takes, metavar, Support.NONE)


def alias(name: str, other: str) -> Option:
    """Declare a former name of an option."""
    return Option(
        name, f"The name of --{other} in older versions.", OptionValueRule.VALUE, "VALUE", stands_for=other
    )


def _zookeeper_option(name: str, metavar: str) -> Option:
    """Declare an option with a ZooKeeper address. In groupd's image it replaces --bootstrap-server."""
    help_ = "In groupd's image only: the broker that the container's variables name."
    return Option(name, help_, OptionValueRule.VALUE, metavar, stands_for=_BOOTSTRAP, in_image_only=True)


BOOTSTRAP: Final = value(_BOOTSTRAP, "HOST:PORT,...", "Brokers to connect to.")
ZOOKEEPER: Final = _zookeeper_option("zookeeper", "HOST:PORT")
AUTHORIZER_PROPERTIES: Final = _zookeeper_option("authorizer-properties", "zookeeper.connect=HOST:PORT")
AUTHORIZER: Final = Option(
    "authorizer",
    "Accepted in groupd's image only, without effect.",
    OptionValueRule.VALUE,
    "CLASS",
    Support.IGNORED,
    in_image_only=True,
)
ZOOKEEPER_OPTIONS: Final = frozenset({ZOOKEEPER.name, AUTHORIZER_PROPERTIES.name})
COMMAND_CONFIG: Final = value(
    "command-config",
    "FILE",
    "Client properties: security.protocol, sasl.jaas.config, ssl.truststore.location, ...",
)
_STANDARD: Final = (flag("help", "Print this text."), flag("version", "Print the version of Kafka."))


class OptionTable:
    """The options of a tool, with `--help` and `--version`."""

    def __init__(self, *options: Option) -> None:
        self.options: tuple[Option, ...] = (*options, *_STANDARD)
        self._by_name = {option.name: option for option in self.options}

    def parse(self, arguments: Sequence[str]) -> "ParsedOptions":
        """Return the options of a call. Raises UsageError for an option that is unknown, not supported, or lacks
        its value.
        """
        found: dict[str, list[str]] = {}
        given_as: dict[str, str] = {}
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                continue
            name, has_value, text = word.lstrip("-").partition("=")
            option = self._by_name.get(name)
            if option is None or not _is_known(option):
                self._fail_unknown(name)
            if option.support is Support.NONE:
                self._fail_unsupported(option)
            values = found.setdefault(option.stands_for or name, [])
            given_as[option.stands_for or name] = name
            if has_value:
                values.append(text)
            elif option.takes is OptionValueRule.VALUE:
                if not rest:
                    raise UsageError(f"Option {name} requires an argument")
                values.append(rest.pop(0))
            elif option.takes is OptionValueRule.OPTIONAL_VALUE and rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
        return ParsedOptions(found, given_as)

    def describe(self) -> str:
        """Return one line for each option, for the text of `--help`."""
        words = {option.name: format_usage(option) for option in self.options if _is_known(option)}
        width = max(map(len, words.values()))
        lines = (
            f"  {words[option.name]:<{width}}  {option.help}"
            for option in sorted(self.options, key=lambda option: option.name)
            if option.support is not Support.NONE and _is_known(option)
        )
        return "\n".join(lines)

    def _fail_unknown(self, name: str) -> NoReturn:
        near = nearest_names(name, [each.name for each in self.options if _is_known(each)])
        hint = _REMOVED.get(name) or (f"Did you mean --{near[0]}?" if near else "")
        raise UsageError(f"{name} is not a recognized option", hint=hint, is_unrecognized=True)

    def _fail_unsupported(self, option: Option) -> NoReturn:
        raise UsageError(
            f"--{option.name} is not supported by groupd's tool. Leave it out, or use Kafka's own tool for it; "
            "--help lists the supported options"
        )


def _is_known(option: Option) -> bool:
    if not option.in_image_only:
        return True
    from coordinator.config.image_variables import is_in_image  # slow to load

    return is_in_image(os.environ)


def format_usage(option: Option) -> str:
    """Return an option with the name of its value, such as `--topic TOPIC`."""
    if option.takes is OptionValueRule.NOTHING:
        return f"--{option.name}"
    return (
        f"--{option.name} {option.metavar}"
        if option.takes is OptionValueRule.VALUE
        else f"--{option.name} [{option.metavar}]"
    )


class ParsedOptions:
    """The options of one call."""

    def __init__(self, found: dict[str, list[str]], given_as: dict[str, str]) -> None:
        """Keep the values by option. `given_as` has the spelling by which each option was given."""
        self._found = found
        self._given_as = given_as

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return name in self._found

    def given_name(self, name: str) -> str:
        """Return the spelling with which an option was given: its own name, or another name for it."""
        return self._given_as.get(name, name)

    def count(self, names: Iterable[str]) -> int:
        """Return the number of these options that were given."""
        return sum(map(self.has, names))

    def all(self, name: str) -> list[str]:
        """Return all values of an option."""
        return self._found.get(name, [])

    def get(self, name: str) -> str | None:
        """Return the value of an option, or None without one. Raises UsageError if the option was given twice."""
        values = self.all(name)
        if len(values) > 1:
            raise UsageError(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None

    def text(self, name: str) -> str:
        """Return the value of an option that must have been given."""
        found = self.get(name)
        assert found is not None, f"--{name} is checked first"
        return found

    def integer(self, name: str) -> int | None:
        """Return the value as a number. Raises UsageError for other text."""
        text = self.get(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"Cannot parse argument '{text}' of option {name}") from None

    def require(self, *names: str) -> None:
        """Check that these options were given. Raises UsageError."""
        for name in names:
            if not self.has(name):
                raise UsageError(f'Missing required argument "[{name}]"')

    def forbid(self, name: str, *others: str) -> None:
        """Check that an option was not given together with options that it excludes. Raises UsageError."""
        if self.has(name):
            for other in others:
                if self.has(other):
                    raise UsageError(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def parse_subcommand(
    arguments: Sequence[str], values: Mapping[str, str], flags: Mapping[str, str], usage: str
) -> tuple[list[str], dict[str, str]]:
    """Return the positional arguments, and the options by name.

    Args:
        arguments: the command line.
        values: the names of options with a value, by option.
        flags: the names of options without a value, by option; their text is "".
        usage: the usage line.

    Raises:
        ToolFailure: an option is unknown or lacks its value.
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
