"""What one topic property may hold. Source: Kafka's `ConfigDef`.

Kafka keeps the text that was given and parses it where it is used, so a value is stored as text here too. A
check takes the text and returns what it means, or raises InvalidConfig.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

ConfigValue = bool | int | float | str | list[str]
Check = Callable[[str, ConfigValue], None]


class InvalidConfig(Exception):
    """A property name that does not exist, or a value that it cannot hold. The text is one sentence."""


class ConfigType(IntEnum):
    """Kafka's numbers for the type of a property, as DescribeConfigs sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


_BOUNDS = {ConfigType.SHORT: 2**15, ConfigType.INT: 2**31, ConfigType.LONG: 2**63}


def parse(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """The meaning of `text` as a value of that type. Raises InvalidConfig."""
    text = text.strip()
    if kind is ConfigType.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise InvalidConfig(f"Invalid value {text} for {name}: it is either true or false")
        return lowered == "true"
    if kind in _BOUNDS:
        return _parse_integer(name, kind, text)
    if kind is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise InvalidConfig(f"Invalid value {text} for {name}: it is not a number") from None
    if kind is ConfigType.LIST:
        return [part.strip() for part in text.split(",")] if text else []
    return text


def _parse_integer(name: str, kind: ConfigType, text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    # int() would also take underscores and the digits of other scripts, which no Java client can mean.
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        raise InvalidConfig(f"Invalid value {text} for {name}: it is not a whole number of type {kind.name}")
    number, bound = int(text), _BOUNDS[kind]
    if not -bound <= number < bound:
        raise InvalidConfig(f"Invalid value {text} for {name}: it does not fit the type {kind.name}")
    return number


def at_least(minimum: float) -> Check:
    """No less than `minimum`."""

    def check(name: str, value: ConfigValue) -> None:
        assert isinstance(value, int | float)
        if value < minimum:
            raise InvalidConfig(f"Invalid value {value} for {name}: it must be at least {minimum}")

    return check


def between(minimum: float, maximum: float) -> Check:
    """From `minimum` to `maximum`, both included."""

    def check(name: str, value: ConfigValue) -> None:
        assert isinstance(value, int | float)
        if not minimum <= value <= maximum:
            raise InvalidConfig(f"Invalid value {value} for {name}: it must be from {minimum} to {maximum}")

    return check


def gzip_level(name: str, value: ConfigValue) -> None:
    """1 to 9, or -1 for the library's own choice."""
    if value != -1:
        between(1, 9)(name, value)


def one_of(*choices: str) -> Check:
    """One of these words; for a list, nothing but these words."""

    def check(name: str, value: ConfigValue) -> None:
        for word in value if isinstance(value, list) else [value]:
            if word not in choices:
                raise InvalidConfig(
                    f"Invalid value {word} for {name}: it must be one of {', '.join(choices)}"
                )

    return check


def throttled_replicas(name: str, value: ConfigValue) -> None:
    """`*`, or pairs `partition:broker`."""
    assert isinstance(value, list)
    if value == ["*"]:
        return
    for part in value:
        partition, colon, broker = part.partition(":")
        if not (colon and partition.isdigit() and broker.isdigit()):
            raise InvalidConfig(
                f"Invalid value {part} for {name}: it must be * or a list of partition:broker"
            )


def anything(name: str, value: ConfigValue) -> None:
    """Any value of the type."""


@dataclass(frozen=True, slots=True)
class BrokerSynonym:
    """The broker property that a topic property takes its default from, and what its value counts in."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One topic property: type, Kafka's default as text, check, the broker's names for it, what it does."""

    name: str
    kind: ConfigType
    default: str
    documentation: str
    check: Check = anything
    synonyms: tuple[BrokerSynonym, ...] = ()
    shows_default: bool = True
    """Whether Kafka lists the built-in default among the synonyms (not where the broker's own has none)."""

    def parse(self, text: str) -> ConfigValue:
        """What `text` means. Raises InvalidConfig naming the property."""
        value = parse(self.name, self.kind, text)
        self.check(self.name, value)
        return value
