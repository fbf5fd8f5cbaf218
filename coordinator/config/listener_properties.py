"""Properties of one listener: `listener.name.<name>.<property>`, and those of one of its mechanisms as well,
`listener.name.<name>.<mechanism>.<property>`. Names and mechanisms are in lower case there.

Source: Kafka's `ListenerName`, `AbstractConfig.valuesWithPrefixOverride`.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from coordinator.config.config_def import ConfigKey, InvalidConfig
from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import PROPERTIES, Config
from coordinator.config.unsupported_settings import IGNORED_PROPERTIES

LISTENER_PREFIX: Final = "listener.name."
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms that groupd supports."""
GSSAPI: Final = "GSSAPI"
"""A SASL mechanism of Kafka that groupd lacks."""
_KNOWN_MECHANISMS: Final = tuple(f"{name.lower()}." for name in (*SASL_MECHANISMS, GSSAPI))
_MECHANISM_PROPERTIES: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.oauthbearer.",
    "sasl.server.callback.handler.class",
)
_LISTENER_PROPERTIES: Final = (
    *_MECHANISM_PROPERTIES,
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
    "ssl.",
)
"""The prefixes of the properties that a listener may override."""


class ListenerProperty(NamedTuple):
    """The parts of a name such as `listener.name.internal.plain.sasl.jaas.config`."""

    listener: str
    """The name of the listener in lower case."""
    mechanism: str
    """The name of the mechanism in lower case; "" for all mechanisms."""
    name: str


def _split_name(name: str) -> ListenerProperty | None:
    """Split a name with the prefix of listener properties into its parts; return None for every other name."""
    listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not name.startswith(LISTENER_PREFIX) or not listener:
        return None
    mechanism = next((each for each in _KNOWN_MECHANISMS if rest.startswith(each)), "")
    return ListenerProperty(listener, mechanism.removesuffix("."), rest.removeprefix(mechanism))


def parse_listener_property(name: str) -> ListenerProperty | None:
    """Parse the name of a listener's property; return None for every other name."""
    found = _split_name(name)
    if found is None or found.name not in PROPERTIES:
        return None
    return (
        found
        if found.name.startswith(_MECHANISM_PROPERTIES if found.mechanism else _LISTENER_PROPERTIES)
        else None
    )


def is_ignored_listener_property(name: str) -> bool:
    """Return whether a name is a listener property that Kafka applies and groupd ignores."""
    found = _split_name(name)
    if found is None or parse_listener_property(name) is not None:
        return False
    return found.name in PROPERTIES or found.name in IGNORED_PROPERTIES


def create_listener_key(name: str, found: ListenerProperty) -> ConfigKey:
    """Return the definition of a listener property under its whole name."""
    return replace(PROPERTIES[found.name], name=name)


def check_listener_values(texts: Mapping[str, str]) -> None:
    """Check the values of all listener properties. Raises ConfigError."""
    for name, text in texts.items():
        found = parse_listener_property(name)
        if found is None:
            continue
        try:
            create_listener_key(name, found).parse(text)
        except InvalidConfig as error:
            raise ConfigError(str(error), name) from error


def check_listener_names(texts: Mapping[str, str], known: set[str]) -> None:
    """Check that properties of listeners name existing ones. `known` are all listener names in lower case. Raises
    ConfigError.
    """
    for name in texts:
        found = parse_listener_property(name)
        if found is not None and found.listener not in known:
            names = ", ".join(sorted(known))
            raise ConfigError(
                f"{name}: listener {found.listener} does not exist. The listeners are: {names}", name
            )


class ListenerValues:
    """The values of the properties for one listener, by the names of the fields of `Config`."""

    def __init__(self, config: Config, texts: Mapping[str, str], listener: str) -> None:
        """Create the values of a listener.

        Args:
            config: The configuration of the broker.
            texts: The values that were set, by Kafka's property names. They are valid.
            listener: The name of the listener, in upper or lower case.
        """
        self._config = config
        self._texts = texts
        self._prefix = f"{LISTENER_PREFIX}{listener.lower()}."

    def find_name(self, name: str, mechanism: str = "") -> str:
        """Return the most specific name that is set for a property and this listener, or the plain name."""
        names = [f"{self._prefix}{mechanism.lower()}.{name}"] if mechanism else []
        names.append(self._prefix + name)
        return next((each for each in names if each in self._texts), name)

    def is_set(self, name: str, mechanism: str = "") -> bool:
        """Return whether a property was set, for this listener or for all."""
        return self.find_name(name, mechanism) in self._texts

    def find_text(self, name: str) -> str | None:
        """Return the text of the property `name` with the prefix of this listener, None if it is not set."""
        return self._texts.get(self._prefix + name)

    def get(self, name: str, mechanism: str = "") -> Any:
        """Return the value of a property for this listener."""
        narrowest = self.find_name(name, mechanism)
        if narrowest == name:
            return getattr(self._config, name.replace(".", "_"))
        value = PROPERTIES[name].parse(self._texts[narrowest])
        return tuple(value) if isinstance(value, list) else value

    def view(self, view_class: type[Any], mechanism: str = "", **others: Any) -> Any:
        """Create an object from properties. Its fields are properties, or are in `others`; see `Config.view`."""
        from dataclasses import fields

        names = [entry.name for entry in fields(view_class) if entry.name not in others]
        return view_class(**{name: self.get(name.replace("_", "."), mechanism) for name in names}, **others)
