"""Where properties come from, and which source wins.

    defaults < profile < properties file < environment < -o name=value < named flags

The environment has the form that Kafka's official image uses: `KAFKA_` and the name in capitals, "." as "_",
"_" as "__", "-" as "___"; or that of Bitnami's, which begins with `KAFKA_CFG_`. What begins with `GROUPD_DEFAULT_`
instead gives another default, for an image to have its own. What means nothing here is one warning a source; an
unknown name in a file or a flag stops the start.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from coordinator.config.errors import ConfigError
from coordinator.config.ignored_names import (
    IGNORED_PROPERTIES,
    is_ignored_property,
    is_ignored_variable,
)
from coordinator.config.image_variables import JAAS_VARIABLES, ReadFile, jaas_file, told_properties
from coordinator.config.listener_properties import (
    PREFIX,
    check_listeners,
    check_values,
    is_ignored,
    parse_name,
)
from coordinator.config.listeners import (
    Listener,
    known_names,
    listening_everywhere,
    parse_http_listener,
    parse_listeners,
)
from coordinator.config.properties import (
    PROPERTIES,
    SYNONYMS,
    TOPIC_PROPERTIES,
    Config,
    is_property,
    parse_config,
)
from coordinator.config.properties_file import parse_properties
from coordinator.names import SecurityProtocol
from coordinator.printable_text import escape_unprintable
from coordinator.suggestions import nearest_names, suggest

if TYPE_CHECKING:
    from coordinator.config.listener_settings import ListenerSettings

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    "test": {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "oracle.commits": "true",
    }
}
"""Opt-in sets of properties, by name.

A client of the classic protocol sets its own heartbeat interval and session; a member of a consumer group (KIP-848)
gets both from the broker, so that `test` has to set them. Retention is Kafka's: a test that wants offsets or groups
to expire asks for it.
"""

_PREFIX: Final = "KAFKA_"
_BITNAMI_PREFIX: Final = "KAFKA_CFG_"
_DEFAULT_PREFIX: Final = "GROUPD_DEFAULT_"
_FLAGS: Final = {
    "listeners": "--listen",
    "advertised.listeners": "--advertise",
    "http.listener": "--http",
    "log.dirs": "--data-dir",
}
_DEFAULTS: Final = "the defaults"
_ENVIRONMENT: Final = "the environment"
_ALIKE: Final = 0.75
"""From which likeness on a name is taken for another one misspelt."""


class Origin(NamedTuple):
    """What set a property: the source, and what in it."""

    source: str
    label: str


@dataclass(slots=True)
class Settings:
    """Properties as text, each with what set it last, and what there is to warn about."""

    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    ignored: dict[str, list[str]] = field(default_factory=dict)
    """Names that mean nothing here, by source."""
    unknown: list[str] = field(default_factory=list)
    """Variables of the environment that are no property."""
    cluster_id: str | None = None
    """For a data directory that has none yet, as Kafka's image takes it."""
    jaas_file: Callable[[], tuple[str, str]] | None = None
    """Reads the file that KAFKA_OPTS names, where it does: its path and its text. Raises ConfigError."""

    def set(self, name: str, text: str, origin: Origin) -> None:
        """Sets a property; the last call wins."""
        newer = SYNONYMS.get(name, name)
        self.texts[newer] = text
        self.origins[newer] = origin

    def parse(self) -> Config:
        """The configuration. Raises ConfigError naming property and source."""
        try:
            config = parse_config(self.texts)
            check_values(self.texts)
            listeners, _ = parse_listeners(config)
            check_listeners(self.texts, known_names(config))
            self.security(config, listeners)
            parse_http_listener(config)
            if config.is_cluster and "/" in (self.cluster_id or ""):
                raise ConfigError(
                    f"CLUSTER_ID: {self.cluster_id} must not contain '/' in a cluster on etcd: the id is part of "
                    "etcd's keys"
                )
        except ConfigError as error:
            raise self._located(error) from error
        return config

    def security(self, config: Config, listeners: Iterable[Listener]) -> dict[str, "ListenerSettings"]:
        """What each listener that is not PLAINTEXT asks of a client, by its name. Raises ConfigError."""
        found: dict[str, ListenerSettings] = {}
        for listener in listeners:
            if listener.protocol is not SecurityProtocol.PLAINTEXT:
                from coordinator.config.listener_security import listener_security  # and what it needs

                found[listener.name] = listener_security(config, self.texts, listener, self.jaas_file)
        return found

    def listen_where_advertised(self) -> None:
        """Does as Kafka's images: where the environment tells `advertised.listeners` alone, their ports are opened,
        on every address. Raises ConfigError.
        """
        name = "advertised.listeners"
        listeners, advertised = self.origins.get("listeners"), self.origins.get(name)
        is_free = listeners is None or listeners.source == _DEFAULTS
        if is_free and advertised is not None and advertised.source == _ENVIRONMENT:
            try:
                addresses = parse_config({name: self.texts[name]}).advertised_listeners
                self.set("listeners", listening_everywhere(addresses), advertised)
            except ConfigError as error:
                raise self._located(error) from error

    def warnings(self, closed: Iterable[str] = ()) -> list[str]:
        """A line for each source of what is ignored. In: the names of listeners that stay closed."""
        ignored = {source: sorted(names) for source, names in self.ignored.items()}
        for name in closed:
            source = self.origins["listeners"].source
            ignored.setdefault(source, []).append(f"the listener {name}")
        lines = [
            f"Ignored from {source}, as groupd has no use for it: {', '.join(names)}"
            for source, names in ignored.items()
        ]
        if self.unknown:
            names = ", ".join(self.unknown)
            lines.append(f"Ignored from {_ENVIRONMENT}, as there is no such property: {names}")
        return list(map(escape_unprintable, lines))

    def _located(self, error: ConfigError) -> ConfigError:
        """The error with what set the properties at fault in front."""
        labels = dict.fromkeys(self.origins[name].label for name in error.names if name in self.origins)
        return ConfigError(f"{', '.join(labels)}: {error}" if labels else str(error), *error.names)


def read_settings(
    *,
    profile: str | None = None,
    file_path: str | None = None,
    file_text: str | None = None,
    environment: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    flags: Mapping[str, str] | None = None,
    read: ReadFile | None = None,
) -> Settings:
    """Merges the sources.

    In: the name of a profile; a properties file, its path for messages; the process environment; `-o` options as
    `name=value`; named flags by the property that they set; what reads the files that variables name. Raises
    ConfigError.
    """
    settings = Settings()
    _read_defaults(settings, environment or {})
    if profile is not None:
        if profile not in PROFILES:
            raise ConfigError(f"--profile {profile} is not a profile {suggest(profile, PROFILES)}")
        for name, text in PROFILES[profile].items():
            settings.set(name, text, Origin("the profile", f"--profile {profile}"))
    if file_text is not None:
        _read_file(settings, file_path or "", file_text)
    used = _read_image_variables(settings, environment or {}, read)
    _read_environment(settings, environment or {}, used)
    settings.cluster_id = _cluster_id(environment or {})
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise ConfigError(f"-o {option}: it is not of the form name=value")
        _set_known(settings, name.strip(), text.strip(), Origin("-o", f"-o {name.strip()}"))
    for name, text in (flags or {}).items():
        settings.set(name, text, Origin("the flags", _FLAGS.get(name, name)))
    settings.listen_where_advertised()
    return settings


def _read_file(settings: Settings, path: str, text: str) -> None:
    try:
        values = parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    for name in sorted(values, key=lambda name: name not in SYNONYMS):
        _set_known(settings, name, values[name].strip(), Origin(path, path))


def _set_known(settings: Settings, name: str, text: str, origin: Origin) -> None:
    if is_property(name) or parse_name(name):
        settings.set(name, text, origin)
    elif is_ignored_property(name) or is_ignored(name):
        settings.ignored.setdefault(origin.source, []).append(name)
    else:
        raise ConfigError(f"{origin.label}: {unknown_property(name)}")


def unknown_property(name: str) -> str:
    """Return the sentence that refuses the name of a property, with the nearest one or where all are listed."""
    near = _nearest(name)
    hint = f"did you mean {near}?" if near else "docs/configuration.md lists all properties"
    return f"{name} is not a property; {hint}"


def _nearest(name: str) -> str:
    """The property that a name may be meant for, or nothing."""
    if name.startswith(PREFIX):
        listener, dot, rest = name.removeprefix(PREFIX).partition(".")
        near = _nearest(rest)
        return near and f"{PREFIX}{listener}{dot}{near}"
    known = [*PROPERTIES, *TOPIC_PROPERTIES, *IGNORED_PROPERTIES]
    return next(iter(nearest_names(name, known, cutoff=_ALIKE)), "")


def property_of_variable(variable: str) -> str:
    """The property that a variable of the environment sets: KAFKA_LOG_DIRS is log.dirs."""
    name = variable.removeprefix(_prefix(variable)).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _variable_of(name: str, prefix: str) -> str:
    return prefix + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _prefix(variable: str) -> str:
    """With which of the prefixes a variable begins; "" for none."""
    prefixes = (_BITNAMI_PREFIX, _PREFIX, _DEFAULT_PREFIX)
    return next((prefix for prefix in prefixes if variable.startswith(prefix)), "")


def _read_defaults(settings: Settings, environment: Mapping[str, str]) -> None:
    for variable in sorted(name for name in environment if name.startswith(_DEFAULT_PREFIX)):
        _set_known(
            settings,
            property_of_variable(variable),
            environment[variable].strip(),
            Origin(_DEFAULTS, variable),
        )


def _cluster_id(environment: Mapping[str, str]) -> str | None:
    text = environment.get("CLUSTER_ID", "").strip()
    if not text.isprintable() or " " in text:  # it becomes a line of meta.properties
        raise ConfigError(f"CLUSTER_ID: {text!r} is not valid: it must be printable text without blanks")
    return text or None


def _read_image_variables(
    settings: Settings, environment: Mapping[str, str], read: ReadFile | None
) -> set[str]:
    """The variables that mean something. A property that is set as such wins."""
    if read is None:
        return set()
    told = told_properties(environment, read)
    for name, text, variable in told:
        settings.set(name, text, Origin(_ENVIRONMENT, variable))
    settings.jaas_file = jaas_file(environment, read)
    return {each.variable for each in told} | (JAAS_VARIABLES if settings.jaas_file else set())


def _read_environment(settings: Settings, environment: Mapping[str, str], used: Container[str]) -> None:
    """Of two forms of one name Kafka's wins, as in Bitnami's image. In: variables that are already read."""
    names = {name: property_of_variable(name) for name in environment if name.startswith(_PREFIX)}

    def rank(variable: str) -> tuple[bool, bool, str]:
        return names[variable] not in SYNONYMS, not variable.startswith(_BITNAMI_PREFIX), variable

    for variable in sorted(names, key=rank):
        name = names[variable]
        if is_property(name) or parse_name(name):
            settings.set(name, environment[variable].strip(), Origin(_ENVIRONMENT, variable))
        elif variable in used:
            continue
        elif is_ignored_property(name) or is_ignored(name) or is_ignored_variable(variable):
            settings.ignored.setdefault(_ENVIRONMENT, []).append(variable)
        else:
            near = _nearest(name)
            question = f" (did you mean {_variable_of(near, _prefix(variable))}?)" if near else ""
            settings.unknown.append(variable + question)
