"""Where properties come from, and which source wins.

    defaults < profile < properties file < environment < -o name=value < named flags

The environment has the form that Kafka's official image uses: `KAFKA_` and the name in capitals, "." as "_",
"_" as "__", "-" as "___". A name of Kafka's that means nothing here is one warning; so is a variable that is no
property. An unknown name in a file or a flag stops the start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator.config.errors import ConfigError
from coordinator.config.ignored_names import IGNORED_PROPERTIES, IMAGE_VARIABLES
from coordinator.config.properties import (
    PROPERTIES,
    SYNONYMS,
    TOPIC_PROPERTIES,
    Config,
    is_property,
    parse_config,
)
from coordinator.config.properties_file import parse_properties
from coordinator.topics.config_key import InvalidConfig

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    "test": {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offsets.retention.check.interval.ms": "1000",
        "log.retention.check.interval.ms": "1000",
    }
}
"""Opt-in sets of properties, by name."""

_PREFIX: Final = "KAFKA_"


@dataclass(slots=True)
class Settings:
    """Properties as text, each with the source that set it last, and what there is to warn about."""

    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def set(self, name: str, text: str, origin: str) -> None:
        """Sets a property; the last call wins."""
        newer = SYNONYMS.get(name, name)
        self.texts[newer] = text
        self.origins[newer] = origin

    def parse(self) -> Config:
        """The configuration. Raises ConfigError naming property and source."""
        for name, text in self.texts.items():
            key = PROPERTIES.get(name) or TOPIC_PROPERTIES[name]
            try:
                key.parse(text)
            except InvalidConfig as error:
                raise ConfigError(f"{self.origins[name]}: {error}") from error
        return parse_config(self.texts)


def read_settings(
    *,
    profile: str | None = None,
    file_path: str | None = None,
    file_text: str | None = None,
    environment: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """Merges the sources.

    In: the name of a profile; a properties file, its path for messages; the process environment; `-o` options as
    `name=value`; named flags by the property that they set. Raises ConfigError.
    """
    settings = Settings()
    if profile is not None:
        if profile not in PROFILES:
            raise ConfigError(
                f"--profile {profile}: there is no such profile; there is: {', '.join(PROFILES)}"
            )
        for name, text in PROFILES[profile].items():
            settings.set(name, text, f"--profile {profile}")
    if file_text is not None:
        _read_file(settings, file_path or "", file_text)
    _read_environment(settings, environment or {})
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise ConfigError(f"-o {option}: it is not of the form name=value")
        _set_known(settings, name.strip(), text.strip(), f"-o {name.strip()}")
    for name, text in (flags or {}).items():
        settings.set(name, text, f"the flag for {name}")
    return settings


def _read_file(settings: Settings, path: str, text: str) -> None:
    try:
        values = parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    for name in sorted(values, key=lambda name: name not in SYNONYMS):
        _set_known(settings, name, values[name].strip(), path)


def _set_known(settings: Settings, name: str, text: str, origin: str) -> None:
    if is_property(name):
        settings.set(name, text, origin)
    elif name in IGNORED_PROPERTIES:
        settings.warnings.append(f"{origin}: {name} is a property of Kafka that means nothing here")
    else:
        raise ConfigError(f"{origin}: {name} is not a property{_suggestion(name)}")


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [*PROPERTIES, *TOPIC_PROPERTIES, *IGNORED_PROPERTIES], 1)
    return f"; did you mean {near[0]}?" if near else ""


def property_of_variable(variable: str) -> str:
    """The property that a variable of the environment sets: KAFKA_LOG_DIRS is log.dirs."""
    name = variable.removeprefix(_PREFIX).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _read_environment(settings: Settings, environment: Mapping[str, str]) -> None:
    variables = sorted(name for name in environment if name.startswith(_PREFIX))
    for variable in sorted(variables, key=lambda variable: property_of_variable(variable) not in SYNONYMS):
        name = property_of_variable(variable)
        if is_property(name):
            settings.set(name, environment[variable].strip(), variable)
        elif name in IGNORED_PROPERTIES:
            settings.warnings.append(f"{variable}: {name} is a property of Kafka that means nothing here")
        elif variable in IMAGE_VARIABLES:
            settings.warnings.append(f"{variable}: is read by Kafka's own scripts and means nothing here")
        else:
            settings.warnings.append(f"{variable}: {name} is not a property{_suggestion(name)}")
