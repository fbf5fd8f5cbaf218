"""The sources of properties, and their precedence.

    defaults < profile < properties file < environment < -o name=value < named flags

A variable of the environment has the form of Kafka's official image: `KAFKA_` and the name in capitals, "." as "_",
"_" as "__", "-" as "___"; or the form of Bitnami's image, with the prefix `KAFKA_CFG_`. With the prefix
`GROUPD_DEFAULT_` it changes the default of a property: images set such variables. An unknown name in a file or a
flag stops the start; in the environment it causes a warning.
"""

from collections.abc import Callable, Container, Mapping
from typing import Final

from coordinator.config.config_errors import ConfigError
from coordinator.config.image_variables import (
    JAAS_VARIABLES,
    ContainerVolumes,
    ReadFile,
    apply_image_variables,
    apply_listener_variables,
    find_cluster_id,
    find_jaas_reader,
    is_in_image,
    read_image_properties,
    use_data_volume,
)
from coordinator.config.listener_properties import (
    LISTENER_PREFIX,
    is_ignored_listener_property,
    parse_listener_property,
)
from coordinator.config.properties import PROPERTIES, SYNONYMS, TOPIC_PROPERTIES, is_property
from coordinator.config.properties_file import parse_properties
from coordinator.config.settings import DEFAULTS, ENVIRONMENT, Origin, Settings
from coordinator.config.unsupported_settings import (
    IGNORED_PROPERTIES,
    UNSUPPORTED_IMAGE_VARIABLES,
    UNSUPPORTED_VARIABLES,
    describe_unsupported_setting,
    is_ignored_property,
    is_ignored_variable,
)
from coordinator.core.message_text import nearest_names, suggest

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

A client of the classic protocol sets its own heartbeat interval and session timeout; a member of a consumer group
(KIP-848) gets both from the broker, so `test` sets them. Retention stays Kafka's default: a test that needs expired
offsets or groups must set it.
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
_ALL_LISTED: Final = "docs/configuration.md lists all properties"
_REMOVE_HINT: Final = f"remove it, or set the property that it stands for ({_ALL_LISTED})"
_BROKER_ID: Final = "broker.id"
_ANY_ID: Final = "-1"
"""The broker id with which Kafka before 4 generates an id. It is the default of wurstmeister/kafka."""
_MIN_LIKENESS: Final = 0.75
"""The minimum similarity at which an error suggests a known name for an unknown one."""


def read_settings(
    *,
    profile: str | None = None,
    file_path: str | None = None,
    file_text: str | None = None,
    environment: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    flags: Mapping[str, str] | None = None,
    read: ReadFile | None = None,
    find_volumes: Callable[[], ContainerVolumes] | None = None,
) -> Settings:
    """Merge the sources of settings.

    The sources are a profile, a properties file (with its path for messages), the environment of the process,
    `-o` options as `name=value`, and named options by the property that they set. Callables read the files
    that variables name and find the volumes of a container. Raises ConfigError."""
    environment = environment or {}
    settings = Settings(in_image=is_in_image(environment))
    _read_defaults(settings, environment)
    if profile is not None:
        if profile not in PROFILES:
            raise ConfigError(f"--profile {profile} is not a profile {suggest(profile, PROFILES)}")
        for name, text in PROFILES[profile].items():
            settings.set(name, text, Origin("the profile", f"--profile {profile}"))
    if file_text is not None:
        _read_file(settings, file_path or "", file_text)
    used = apply_image_variables(settings, environment)
    used |= _read_image_files(settings, environment, read)
    _read_environment(settings, environment, used)
    settings.cluster_id = _read_cluster_id(environment, in_image=settings.in_image)
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise ConfigError(f"-o {option}: write it as name=value")
        _set_known(settings, name.strip(), text.strip(), Origin("-o", f"-o {name.strip()}"))
    for name, text in (flags or {}).items():
        settings.set(name, text, Origin("the flags", _FLAGS.get(name, name)))
    apply_listener_variables(settings, environment)
    if find_volumes is not None:
        use_data_volume(settings, find_volumes)
    settings.withdraw_open_control()
    return settings


def _read_file(settings: Settings, path: str, text: str) -> None:
    try:
        values = parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    for name in sorted(values, key=lambda name: name not in SYNONYMS):
        _set_known(settings, name, values[name].strip(), Origin(path, path))


def _set_known(settings: Settings, name: str, text: str, origin: Origin) -> None:
    if is_property(name) or parse_listener_property(name):
        settings.set(name, text, origin)
    elif is_ignored_property(name) or is_ignored_listener_property(name):
        settings.note_ignored(name, text, origin)
    else:
        raise ConfigError(f"{origin.label}: {format_unknown_property(name)}")


def format_unknown_property(name: str) -> str:
    """Format the error for an unknown property. It suggests a similar name, or names the list of all properties."""
    near = _find_nearest(name)
    hint = f"did you mean {near}?" if near else _ALL_LISTED
    return f"{name} is not a property; {hint}"


def _find_nearest(name: str) -> str:
    """Return the known property with the most similar name, "" if no name is similar."""
    if name.startswith(LISTENER_PREFIX):
        listener, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
        near = _find_nearest(rest)
        return near and f"{LISTENER_PREFIX}{listener}{dot}{near}"
    known = [*PROPERTIES, *TOPIC_PROPERTIES, *IGNORED_PROPERTIES]
    return next(iter(nearest_names(name, known, cutoff=_MIN_LIKENESS)), "")


def parse_variable_name(variable: str) -> str:
    """Return the property that a variable of the environment sets: KAFKA_LOG_DIRS is log.dirs."""
    name = variable.removeprefix(_find_prefix(variable)).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _format_variable(name: str, prefix: str) -> str:
    return prefix + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _find_prefix(variable: str) -> str:
    """Return the prefix of a variable, "" if it has no known prefix."""
    prefixes = (_BITNAMI_PREFIX, _PREFIX, _DEFAULT_PREFIX)
    return next((prefix for prefix in prefixes if variable.startswith(prefix)), "")


def _read_defaults(settings: Settings, environment: Mapping[str, str]) -> None:
    for variable in sorted(name for name in environment if name.startswith(_DEFAULT_PREFIX)):
        _set_known(
            settings,
            parse_variable_name(variable),
            environment[variable].strip(),
            Origin(DEFAULTS, variable),
        )


def _read_cluster_id(environment: Mapping[str, str], *, in_image: bool) -> str | None:
    variable, text = find_cluster_id(environment, in_image=in_image)
    if not text.isprintable() or " " in text:  # it becomes a line of meta.properties
        raise ConfigError(f"{variable}: {text!r} is not valid: it must be printable text without spaces")
    return text or None


def _read_image_files(settings: Settings, environment: Mapping[str, str], read: ReadFile | None) -> set[str]:
    """Read the properties and the JAAS configuration that variables of images set. Explicitly set properties take
    precedence, because they are read later. Return the variables with an effect."""
    if read is None:
        return set()
    properties = read_image_properties(environment, read)
    for name, text, variable in properties:
        settings.set(name, text, Origin(ENVIRONMENT, variable))
    settings.jaas_file = find_jaas_reader(environment, read)
    return {each.variable for each in properties} | (JAAS_VARIABLES if settings.jaas_file else set())


def _read_environment(settings: Settings, environment: Mapping[str, str], used: Container[str]) -> None:
    """Read the properties of the environment, except the variables `used` elsewhere. If a property is set in two
    forms, Kafka's wins, as in Bitnami's image.
    """
    names = {name: parse_variable_name(name) for name in environment if name.startswith(_PREFIX)}

    def rank(variable: str) -> tuple[bool, bool, str]:
        return names[variable] not in SYNONYMS, not variable.startswith(_BITNAMI_PREFIX), variable

    warned = _warn_of_unsupported_settings(settings, environment)
    for variable in sorted(names, key=rank):
        name, text, origin = names[variable], environment[variable].strip(), Origin(ENVIRONMENT, variable)
        if name == _BROKER_ID and text == _ANY_ID:
            settings.ignored.setdefault(ENVIRONMENT, []).append(variable)
        elif is_property(name) or parse_listener_property(name):
            settings.set(name, text, origin)
        elif variable in used or variable in warned:
            continue
        elif is_ignored_property(name) or is_ignored_listener_property(name):
            settings.note_ignored(name, text, origin)
        elif is_ignored_variable(variable):
            settings.ignored.setdefault(ENVIRONMENT, []).append(variable)
        else:
            near = _find_nearest(name)
            hint = f"did you mean {_format_variable(near, _find_prefix(variable))}?" if near else _REMOVE_HINT
            settings.add_warning(f"{variable} is not a property and has no effect: {hint}")


def _warn_of_unsupported_settings(settings: Settings, environment: Mapping[str, str]) -> set[str]:
    """Warn of variables, except those of properties, that request a missing function. Return their names."""
    names = {**UNSUPPORTED_VARIABLES, **(UNSUPPORTED_IMAGE_VARIABLES if settings.in_image else {})}
    requested = {name for name in names if names[name].is_requested(environment.get(name, "").strip())}
    for variable in sorted(requested):
        settings.add_warning(describe_unsupported_setting(variable, names[variable]))
    return requested
