"""Definition of one property: its type, its bounds, its default, and its declaration as a field of a class.
Source: Kafka's `ConfigDef`.

Kafka stores the given text of a value and parses it at each use, so a value is stored as text here too.
Bounds are data: validation, error messages, documentation and tests all read them.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import IntEnum
from math import isinf
from typing import Any, ClassVar, Final, NamedTuple, Protocol, dataclass_transform

from msgspec import Struct

ConfigValue = bool | int | float | str | list[str]


class InvalidConfig(Exception):
    """An unknown property name, or a value that the property does not accept. The text is one sentence on one line.

    `name` is the property, "" if the error concerns no known property.
    """

    def __init__(self, text: str, name: str = "") -> None:
        super().__init__(text)
        self.name = name


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
    """Kafka's numbers for the source of a value."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


LIMITS: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}
"""The minimum and the maximum of each integer type."""

_BLANKS: Final = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_INTEGER: Final = re.compile(r"[+-]?\d+")  # like Java, accepts the digits of every script
_DOUBLE: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_QUOTED: Final = 200
_MAX_TEXT: Final = 1000
"""Maximum characters of a value in an error for a client. Old versions of the response have room for 32,767 bytes.
"""
HIDDEN_PASSWORD: Final = "[hidden]"
"""The text that replaces a password in messages. Source: Kafka's `Password`."""


def parse_value(kind: ConfigType, text: str) -> ConfigValue:
    """Parse `text` as a value of this type. Raises ValueError."""
    text = text.strip(_BLANKS)
    if kind in (ConfigType.STRING, ConfigType.PASSWORD, ConfigType.CLASS):
        return text
    if kind is ConfigType.BOOLEAN:
        return ("false", "true").index(text.lower()) == 1
    if kind in LIMITS:
        lowest, highest = LIMITS[kind]
        if not _INTEGER.fullmatch(text) or not lowest <= int(text) <= highest:
            raise ValueError(text)
        return int(text)
    if kind is ConfigType.DOUBLE:
        if not _DOUBLE.fullmatch(text):
            raise ValueError(text)
        return float(text)
    assert kind is ConfigType.LIST, kind
    return [part.strip(_BLANKS) for part in text.split(",")] if text else []


def _format_java_double(value: float) -> str:
    """Format a number as Java's Double.toString: small and large numbers in scientific notation."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    _, digits, exponent = Decimal(str(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def _quote_value(text: str) -> str:
    """Format a value for one line of a terminal or log: truncated, and quoted if it is empty or not printable."""
    if len(text) > _MAX_QUOTED:
        text = text[:_MAX_QUOTED] + "…"
    return text if text and text.isprintable() and text == text.strip() else repr(text)


def _format_java_value(value: ConfigValue) -> str:
    """Format a value as Kafka's error messages do."""
    if isinstance(value, list):
        text = f"[{', '.join(value)}]"
    else:
        text = _format_java_double(value) if isinstance(value, float) else str(value)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def _format_invalid(name: str, value: ConfigValue, why: str) -> str:
    return f"Invalid value {_format_java_value(value)} for configuration {name}: {why}"


EMPTY_WORD_ERROR: Final = "Configuration '{name}' values must not be empty."


class ValueBounds(Protocol):
    """The accepted values of a property."""

    def accepts_value(self, value: ConfigValue) -> bool:
        """Return whether the property accepts the value."""

    def describe_allowed(self, kind: ConfigType) -> str:
        """Describe the accepted values, for an error and the documentation."""

    def format_error(self, name: str, value: ConfigValue) -> str:
        """Return Kafka's error for a value that the property `name` does not accept."""


class _AnyValue(Struct, frozen=True):
    """Every value of the type."""

    def accepts_value(self, value: ConfigValue) -> bool:
        return True

    def describe_allowed(self, kind: ConfigType) -> str:
        if kind in LIMITS:
            return NumberRange().describe_allowed(kind)
        return {ConfigType.BOOLEAN: "true or false", ConfigType.LIST: "a list"}.get(kind, "any text")

    def format_error(self, name: str, value: ConfigValue) -> str:
        raise AssertionError(f"{name} takes {value!r}")


class NumberRange(Struct, frozen=True):
    """Numbers from `minimum` to `maximum`, both included; None means the bound of the type. Also accepts `others`,
    and every negative number if `takes_negative`.
    """

    minimum: int | None = None
    maximum: int | None = None
    others: tuple[int, ...] = ()
    takes_negative: bool = False

    def accepts_value(self, value: ConfigValue) -> bool:
        assert isinstance(value, int | float)
        if value in self.others or (self.takes_negative and value < 0):
            return True
        return (self.minimum is None or value >= self.minimum) and (
            self.maximum is None or value <= self.maximum
        )

    def describe_allowed(self, kind: ConfigType) -> str:
        lowest, highest = LIMITS.get(kind, (None, None))
        minimum = lowest if self.minimum is None else self.minimum
        maximum = highest if self.maximum is None else self.maximum
        words = f"a {'whole ' if kind in LIMITS else ''}number from {minimum} to {maximum}"
        if self.takes_negative:
            words += ", or a negative one"
        return words + "".join(f", or {other}" for other in self.others)

    def format_error(self, name: str, value: ConfigValue) -> str:
        assert isinstance(value, int | float)
        if self.others:
            allowed = f"between {self.minimum} and {self.maximum} or equal to {self.others[0]}"
        elif self.minimum is not None and value < self.minimum:
            allowed = f"at least {self.minimum}"
        else:
            allowed = f"no more than {self.maximum}"
        return _format_invalid(name, value, f"Value must be {allowed}")


class OneOf(Struct, frozen=True):
    """One of these words, in any case if `ignores_case`; a list may contain only these words."""

    words: tuple[str, ...]
    ignores_case: bool = False

    def accepts_value(self, value: ConfigValue) -> bool:
        given = value if isinstance(value, list) else [value]
        return all((str(word).lower() if self.ignores_case else word) in self.words for word in given)

    def describe_allowed(self, kind: ConfigType) -> str:
        words = ", ".join(word or "nothing" for word in self.words)
        return f"a list of {words}" if kind is ConfigType.LIST else f"one of {words}"

    def format_error(self, name: str, value: ConfigValue) -> str:
        if isinstance(value, list):
            if "" in value:
                return EMPTY_WORD_ERROR.format(name=name)
            value = next(word for word in value if word not in self.words)
        return _format_invalid(name, value, f"String must be one of: {', '.join(self.words)}")


class CustomBounds(Struct, frozen=True):
    """Text or lists that `matches` accepts; `description` describes them in messages. Kafka's error is a template
    with `name` and `value`."""

    description: str
    matches: Callable[[ConfigValue], bool]
    kafka_error: str = ""

    def accepts_value(self, value: ConfigValue) -> bool:
        return self.matches(value)

    def describe_allowed(self, kind: ConfigType) -> str:
        return self.description

    def format_error(self, name: str, value: ConfigValue) -> str:
        template = self.kafka_error or "Invalid value {value} for configuration {name}"
        return template.format(name=name, value=_format_java_value(value))


ANY_VALUE: Final = _AnyValue()
"""Every value of the type."""


def at_least(minimum: int) -> NumberRange:
    """Return the range of numbers from `minimum`."""
    return NumberRange(minimum)


def between(minimum: int, maximum: int) -> NumberRange:
    """Return the range of numbers from `minimum` to `maximum`, both included."""
    return NumberRange(minimum, maximum)


def one_of(*words: str) -> OneOf:
    """Return bounds that accept one of these words, or a list of only these words."""
    return OneOf(words)


class BrokerSynonym(Struct, frozen=True):
    """A broker property that gives a topic property its default.

    Its value times `factor` is the value of the topic property, as with hours and milliseconds. `bounds` is None if
    it has the bounds of the topic property. `has_default`: the broker property itself has a default; if several
    properties give the same time in different units, only that of the largest unit has one.
    """

    name: str
    factor: int = 1
    bounds: ValueBounds | None = None
    has_default: bool = True


class ConfigKey(Struct, frozen=True):
    """One property: its type, default, documentation and bounds. A topic property also has its broker synonyms."""

    name: str
    kind: ConfigType
    default: str
    documentation: str
    bounds: ValueBounds = ANY_VALUE
    synonyms: tuple[BrokerSynonym, ...] = ()

    def create_broker_key(self, synonym: BrokerSynonym) -> "ConfigKey":
        """Return the definition of a broker property that gives topics their default."""
        is_same = synonym.factor == 1
        default = self.default if is_same else str(int(self.default) // synonym.factor)
        return ConfigKey(
            synonym.name,
            self.kind if is_same else ConfigType.INT,
            default if synonym.has_default else "",
            self.documentation,
            synonym.bounds or self.bounds,
        )

    @property
    def allowed(self) -> str:
        """Describe the accepted values."""
        return self.bounds.describe_allowed(self.kind)

    def format_canonical(self, text: str) -> str:
        """Return the value as Kafka shows it, without surrounding blanks. Raises InvalidConfig.

        Source: Kafka's `ConfigDef.convertToString`.
        """
        value = self.parse(text)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return ",".join(value)
        return _format_java_double(value) if isinstance(value, float) else str(value)

    def parse(self, text: str) -> ConfigValue:
        """Parse a value. Raises InvalidConfig with the property, the value and the accepted values."""
        value: ConfigValue | None
        try:
            value = parse_value(self.kind, text)
        except ValueError:
            value = None
        if value is None or not self.bounds.accepts_value(value):
            shown = HIDDEN_PASSWORD if self.kind is ConfigType.PASSWORD else _quote_value(text)
            raise InvalidConfig(
                f"Invalid value {shown} for {self.name}: it must be {self.allowed}", self.name
            )
        return value

    def parse_from_client(self, text: str) -> ConfigValue:
        """Parse a value that a client sent. Raises InvalidConfig with Kafka's text.

        Source: Kafka's `ConfigDef.parseType` and its validators.
        """
        try:
            value = parse_value(self.kind, text)
        except ValueError as error:
            if self.kind is ConfigType.BOOLEAN:
                why = "Expected value to be either true or false"
            else:
                why = f"Not a number of type {self.kind.name}"
            raise InvalidConfig(_format_invalid(self.name, text, why), self.name) from error
        if not self.bounds.accepts_value(value):
            raise InvalidConfig(self.bounds.format_error(self.name, value), self.name)
        return value


class PropertyDeclaration(NamedTuple):
    """The type of a property, its default as text and as value, its documentation and its bounds."""

    kind: ConfigType
    text: str
    default: Any
    documentation: str
    bounds: ValueBounds


def kafka_property(
    kind: ConfigType, default: Any, documentation: str, bounds: ValueBounds = ANY_VALUE
) -> Any:
    """Declare a field as a property. The text of its default is derived from the value `default`."""
    if isinstance(default, bool):
        text = str(default).lower()
    elif isinstance(default, tuple):
        text = ",".join(default)
    else:
        text = str(default)
    return PropertyDeclaration(kind, text, default, documentation, bounds)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Properties:
    """Immutable values of declared properties. The class has the defaults, an instance the values that are set."""

    declarations: ClassVar[Mapping[str, PropertyDeclaration]] = {}
    """Declarations by field name. Those of base classes come first, from the last base to the first."""

    def __init_subclass__(cls) -> None:
        declarations: dict[str, PropertyDeclaration] = {}
        for base in reversed(cls.__bases__):
            declarations |= vars(base).get("declarations", {})
        own = {name: each for name, each in vars(cls).items() if isinstance(each, PropertyDeclaration)}
        for name, declaration in own.items():
            setattr(cls, name, declaration.default)
        cls.declarations = declarations | own

    def __init__(self, **values: Any) -> None:
        """Set values by the names of their fields.

        Raises TypeError for an unknown name, ConfigError for values that contradict each other.
        """
        unknown = values.keys() - self.declarations.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        vars(self).update(values)
        self.check()

    def check(self) -> None:
        """Raise ConfigError for values that contradict each other."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")


def build_config_keys(of: type[Properties]) -> dict[str, ConfigKey]:
    """Return the properties that a class and its bases declare, by Kafka's names."""
    keys = (
        ConfigKey(kafka_name(field), each.kind, each.text, each.documentation, each.bounds)
        for field, each in of.declarations.items()
    )
    return {key.name: key for key in keys}


def kafka_name(field: str) -> str:
    """Return the name of the property of a field: `group.max.size` for `group_max_size`."""
    return field.replace("_", ".")


def list_property_names(*classes: type[Properties]) -> frozenset[str]:
    """Return the names of the properties that these classes declare themselves, without those of their bases."""
    return frozenset(kafka_name(field) for each in classes for field in each.__annotations__)
