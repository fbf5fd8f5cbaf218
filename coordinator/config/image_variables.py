"""Environment variables and volumes of Kafka's images, translated into properties as by their start scripts.

TLS and users: `apache/kafka` and Confluent's images name files in one directory; Bitnami's have certificates
with fixed names, and the users of PLAIN in variables. `KAFKA_OPTS` may name a JAAS file for Java. The
advertised address may have a host and a port in variables of their own, as before Kafka 3.0.

Node id, cluster id, topics, listeners, and the volume for the data: outside of a container another program
may use a variable such as NODE_ID or a path such as /kafka. Such ambiguous names count only with
GROUPD_IMAGE=true, which groupd's own image sets.

Source: the script `configure` of `apache/kafka`; the documentation of `bitnami/kafka`;
`KafkaConfig.advertisedListeners` of Kafka 2.8; the Dockerfiles and start scripts of the images that
`IMAGE_VARIABLES` names, and of wurstmeister/kafka, debezium/kafka, spotify/kafka and lensesio/fast-data-dev.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator.config.config_errors import ConfigError, StartNotice
from coordinator.config.initial_topics import (
    CREATE_TOPICS,
    KAFKA_CREATE_TOPICS,
    SEPARATOR,
    parse_initial_topics,
)
from coordinator.config.listeners import DEFAULT_NAME, find_listener_address, find_names_without_protocol
from coordinator.config.properties import parse_config
from coordinator.config.settings import DEFAULTS, ENVIRONMENT, Origin, Settings

IN_IMAGE: Final = "GROUPD_IMAGE"
_NODE_ID_VARIABLES: Final = ("BROKER_ID", "NODE_ID")
"""The later one wins, as in debezium/kafka."""
_CLUSTER_ID_VARIABLES: Final = ("CLUSTER_ID",)
_IMAGE_CLUSTER_ID_VARIABLES: Final = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
_LISTENERS: Final = "listeners"
_ADVERTISED: Final = "advertised.listeners"
_CONTROLLERS: Final = "controller.listener.names"
_PROTOCOLS: Final = "listener.security.protocol.map"
_CONTROLLER: Final = "CONTROLLER"
_LOG_DIRS: Final = "log.dirs"
_NODE_ID: Final = "node.id"

DATA_VOLUMES: Final[Mapping[str, str]] = {
    "/var/lib/kafka/data": "/var/lib/kafka/data",
    "/var/lib/kafka": "/var/lib/kafka/data",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami": "/bitnami/kafka/data",
    "/kafka/data": "/kafka/data/{node}",
    "/kafka": "/kafka/kafka-logs",
    "/tmp/kraft-combined-logs": "/tmp/kraft-combined-logs",
}
"""The data directory of Kafka's images by the path of their volume.

`{node}` stands for node.id. wurstmeister/kafka adds the name of the container to its directory below /kafka, so
that a new container finds no data. groupd leaves out the name.
"""


class ContainerVolumes(NamedTuple):
    """The volumes of a container: their paths, and whether the process may write to the directory at a path."""

    mount_points: Collection[str]
    is_writable: Callable[[str], bool]


def is_in_image(environment: Mapping[str, str]) -> bool:
    """Return whether groupd runs in its own image (GROUPD_IMAGE)."""
    return environment.get(IN_IMAGE, "").strip().lower() == "true"


def find_cluster_id(environment: Mapping[str, str], *, in_image: bool) -> tuple[str, str]:
    """Return the variable with the id of a new cluster, and the id; an empty id if no variable is set."""
    for variable in _IMAGE_CLUSTER_ID_VARIABLES if in_image else _CLUSTER_ID_VARIABLES:
        if text := environment.get(variable, "").strip():
            return variable, text
    return _CLUSTER_ID_VARIABLES[0], ""


def apply_image_variables(settings: Settings, environment: Mapping[str, str]) -> set[str]:
    """Set node id and topics from variables of images; set properties take precedence. Return the
    variables that have an effect."""
    used = set()
    if settings.in_image:
        used.add(find_cluster_id(environment, in_image=True)[0])
        for variable in _NODE_ID_VARIABLES:
            if text := environment.get(variable, "").strip():
                settings.set(_NODE_ID, text, Origin(ENVIRONMENT, variable))
    topics, problems = parse_initial_topics(environment, in_image=settings.in_image)
    settings.initial_topics = topics
    for problem in problems:
        settings.add_warning(problem)
    return used | {KAFKA_CREATE_TOPICS, CREATE_TOPICS, SEPARATOR}


def apply_listener_variables(settings: Settings, environment: Mapping[str, str]) -> None:
    """Set listeners from variables, unless the properties are set. Raises ConfigError."""
    if settings.is_default(_ADVERTISED):
        with settings.locate_errors():
            _advertise_host(settings, environment)
    settings.listen_where_advertised()
    with settings.locate_errors():
        _close_controller(settings)


def _advertise_host(settings: Settings, environment: Mapping[str, str]) -> None:
    listeners = None
    if not settings.is_default(_LISTENERS):
        listeners = parse_config({_LISTENERS: settings.texts[_LISTENERS]}).listeners
    found = find_advertised_host(environment, listeners, in_image=settings.in_image)
    if found is None:
        return
    settings.mark_effective(found.read)
    origin = Origin(ENVIRONMENT, found.variable)
    if found.problem:
        settings.add_warning(found.problem)
    if found.listeners:
        settings.set(_LISTENERS, found.listeners, origin)
    if found.advertised_listeners:
        settings.set(_ADVERTISED, found.advertised_listeners, origin)


def _close_controller(settings: Settings) -> None:
    """Close a listener CONTROLLER of the environment that has no protocol, unless controller.listener.names is set.

    Images of Kafka set both by default.
    """
    origin = settings.origins.get(_LISTENERS)
    if origin is None or origin.source != ENVIRONMENT or not settings.is_default(_CONTROLLERS):
        return
    names = (_LISTENERS, _PROTOCOLS)
    config = parse_config({name: settings.texts[name] for name in names if name in settings.texts})
    if _CONTROLLER in find_names_without_protocol(config):
        settings.set(_CONTROLLERS, _CONTROLLER, origin)


def use_data_volume(settings: Settings, find_volumes: Callable[[], ContainerVolumes]) -> None:
    """Set log.dirs to a volume that is mounted at the path of a Kafka image's volume, unless log.dirs is set."""
    if not (settings.in_image and settings.is_default(_LOG_DIRS)):
        return
    volumes = find_volumes()
    path = next((path for path in DATA_VOLUMES if path in volumes.mount_points), None)
    if path is None:
        return
    directory = DATA_VOLUMES[path].format(node=settings.texts.get(_NODE_ID, "1"))
    if volumes.is_writable(directory):
        settings.set(_LOG_DIRS, directory, Origin(DEFAULTS, f"the volume {path}"))
        text = f"The data directory is {directory}, because {path} is a volume and log.dirs is not set"
        settings.notices.append(StartNotice(text, is_warning=False))
    else:
        settings.add_warning(
            f"{path} is a volume that groupd cannot write to, so that the data is in "
            f"{settings.texts.get(_LOG_DIRS, 'log.dirs')} instead: give the volume to groupd's user "
            "(chown -R 10001:10001), or run the container as the owner of the volume (user: in a compose file)"
        )


_HOST_VARIABLES: Final = ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_CFG_ADVERTISED_HOST_NAME")
_PORT_VARIABLES: Final = ("KAFKA_ADVERTISED_PORT", "KAFKA_CFG_ADVERTISED_PORT")
_IMAGE_HOST_VARIABLES: Final = (*_HOST_VARIABLES, "ADVERTISED_HOST_NAME", "ADVERTISED_HOST", "ADV_HOST")
_IMAGE_PORT_VARIABLES: Final = (*_PORT_VARIABLES, "ADVERTISED_PORT")
_LISTEN_PORT_VARIABLES: Final = ("KAFKA_PORT",)
_DEFAULT_PORT: Final = "9092"


class AdvertisedHost(Struct, frozen=True):
    """The values of `listeners` and `advertised.listeners` that variables set; "" for an unchanged property.

    Messages name `variable` as the source; `read` has all variables with an effect. `problem` is a sentence if the
    variable cannot be applied, else "".
    """

    variable: str
    read: frozenset[str]
    listeners: str = ""
    advertised_listeners: str = ""
    problem: str = ""


def find_advertised_host(
    environment: Mapping[str, str], listeners: Iterable[str] | None, *, in_image: bool
) -> AdvertisedHost | None:
    """Return the addresses that the variables set, or None without any.

    `listeners` is None if the default listeners are in force. Without `in_image` only Kafka's own variables are
    read. Requires that advertised.listeners is not set. Raises ConfigError.
    """
    host_variable, host = _find_first(environment, _IMAGE_HOST_VARIABLES if in_image else _HOST_VARIABLES)
    port_variable, port = _find_first(environment, _IMAGE_PORT_VARIABLES if in_image else _PORT_VARIABLES)
    listen_variable, listen_port = _find_first(environment, _LISTEN_PORT_VARIABLES if in_image else ())
    if not (host or port or listen_port):
        return None
    read = frozenset({host_variable, port_variable, listen_variable})
    if listeners is None:
        bound_port, new_listeners = listen_port or _DEFAULT_PORT, ""
        if host or listen_port:
            new_listeners = f"{DEFAULT_NAME}://0.0.0.0:{bound_port}"
    else:
        bound, new_listeners = find_listener_address(listeners, DEFAULT_NAME), ""
        if bound is None and host:
            return AdvertisedHost(host_variable, read, problem=_format_no_listener(host_variable))
        bound_port = "" if bound is None else str(bound.port)
    if not host and port not in ("", bound_port):
        return AdvertisedHost(port_variable, read, new_listeners, problem=_format_no_host(port_variable))
    if not host:
        return AdvertisedHost(listen_variable, read, new_listeners)
    advertised = f"{DEFAULT_NAME}://{_bracket_host(host)}:{port or bound_port}"
    return AdvertisedHost(host_variable, read, new_listeners, advertised)


def _find_first(environment: Mapping[str, str], variables: Iterable[str]) -> tuple[str, str]:
    """Return the first of these variables with a value, and the value; two empty strings if no variable has one.

    A URL does not count as a value: Kubernetes sets such variables for a service with the same name.
    """
    for variable in variables:
        value = environment.get(variable, "").strip()
        if value and "://" not in value:
            return variable, value
    return "", ""


def _bracket_host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _format_no_listener(variable: str) -> str:
    return (
        f"{variable} has no effect, because no listener has the name {DEFAULT_NAME}: set "
        "KAFKA_ADVERTISED_LISTENERS to NAME://HOST:PORT for each listener"
    )


def _format_no_host(variable: str) -> str:
    return f"{variable} has no effect without a host: set KAFKA_ADVERTISED_HOST_NAME as well"


_SECRETS: Final = "/etc/kafka/secrets/"
_LOCATIONS: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_CREDENTIALS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
_BITNAMI_SECRETS: Final = "/opt/bitnami/kafka/config/certs/kafka."
_BITNAMI_TYPE: Final = "KAFKA_TLS_TYPE"
_BITNAMI_PASSWORD: Final = "KAFKA_CERTIFICATE_PASSWORD"
_BITNAMI_CLIENT_AUTH: Final = "KAFKA_TLS_CLIENT_AUTH"
_BITNAMI_STORES: Final = {
    "ssl.keystore.location": "keystore.jks",
    "ssl.truststore.location": "truststore.jks",
}
_BITNAMI_PEMS: Final = {
    "ssl.keystore.certificate.chain": "keystore.pem",
    "ssl.keystore.key": "keystore.key",
    "ssl.truststore.certificates": "truststore.pem",
}
_USERS: Final = "KAFKA_CLIENT_USERS"
_PASSWORDS: Final = "KAFKA_CLIENT_PASSWORDS"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LISTENER_SUFFIXES: Final = ("LISTENERS", "ADVERTISED_LISTENERS", "LISTENER_SECURITY_PROTOCOL_MAP")
_JAVA_OPTIONS: Final = "KAFKA_OPTS"
_LOGIN_CONFIG: Final = "-Djava.security.auth.login.config="
JAAS_VARIABLES: Final = frozenset({_JAVA_OPTIONS, _USERS, _PASSWORDS})
"""The variables that `find_jaas_reader` reads."""

ReadFile = Callable[[str], str]
"""Returns the text of the file at a path. Raises ConfigError with a text that begins with the path."""


class ImageProperty(NamedTuple):
    """A property with its value, and the variable that sets it."""

    name: str
    text: str
    variable: str


def read_image_properties(environment: Mapping[str, str], read: ReadFile) -> list[ImageProperty]:
    """Return the properties that the images' own variables set. Reads files only if a listener has TLS. Raises
    ConfigError with a text that begins with the variable."""
    found: list[ImageProperty] = []
    if _get_value(environment, _USERS):
        found.append(ImageProperty("sasl.enabled.mechanisms", "PLAIN", _USERS))
    if any(
        "SSL" in environment.get(f"KAFKA_{cfg}{name}", "")
        for cfg in ("", "CFG_")
        for name in _LISTENER_SUFFIXES
    ):
        found += _read_bitnami_properties(environment, read)
        for variable, name in _LOCATIONS.items():
            if file := _get_value(environment, variable):
                found.append(ImageProperty(name, _SECRETS + file, variable))
        for variable, name in _CREDENTIALS.items():
            if file := _get_value(environment, variable):
                found.append(_read_secret_file(name, _SECRETS + file, variable, read))
    return found


def _read_bitnami_properties(environment: Mapping[str, str], read: ReadFile) -> Iterator[ImageProperty]:
    variable = next(
        (each for each in (_BITNAMI_TYPE, _BITNAMI_PASSWORD) if _get_value(environment, each)), None
    )
    if variable is None:
        return
    password = _get_value(environment, _BITNAMI_PASSWORD)
    is_pem = _get_value(environment, _BITNAMI_TYPE).upper() == "PEM"
    for store in ("keystore", "truststore"):
        yield ImageProperty(f"ssl.{store}.type", "PEM" if is_pem else "JKS", variable)
    if is_pem:
        for name, file in _BITNAMI_PEMS.items():
            yield _read_secret_file(name, _BITNAMI_SECRETS + file, variable, read)
    else:
        for name, file in _BITNAMI_STORES.items():
            yield ImageProperty(name, _BITNAMI_SECRETS + file, variable)
            yield ImageProperty(name.replace("location", "password"), password, _BITNAMI_PASSWORD)
    yield ImageProperty("ssl.key.password", password, _BITNAMI_PASSWORD)
    auth = _get_value(environment, _BITNAMI_CLIENT_AUTH) or "required"
    yield ImageProperty("ssl.client.auth", auth, _BITNAMI_CLIENT_AUTH)


def _read_secret_file(name: str, path: str, variable: str, read: ReadFile) -> ImageProperty:
    try:
        return ImageProperty(name, read(path).strip("\r\n"), variable)
    except ConfigError as error:
        raise ConfigError(f"{variable}: {error}") from error


def _get_value(environment: Mapping[str, str], variable: str) -> str:
    return environment.get(variable, "").strip()


def find_jaas_reader(environment: Mapping[str, str], read: ReadFile) -> Callable[[], tuple[str, str]] | None:
    """Return a function that reads the JAAS configuration of the environment, or None without one. The function
    returns the name of the configuration for messages, and its text; it raises ConfigError."""
    path = _find_jaas_path(environment)
    if path is not None:
        return lambda: (f"{_JAVA_OPTIONS}: {path}", _read_jaas(path, read))
    if _get_value(environment, _USERS):
        return lambda: (_USERS, _create_jaas(environment))
    return None


def _find_jaas_path(environment: Mapping[str, str]) -> str | None:
    if _LOGIN_CONFIG not in environment.get(_JAVA_OPTIONS, ""):
        return None
    import shlex  # only images with such a file need it

    try:
        options = shlex.split(environment[_JAVA_OPTIONS])
    except ValueError as error:
        raise ConfigError(f"{_JAVA_OPTIONS}: {error}") from error
    found = [option.removeprefix(_LOGIN_CONFIG) for option in options if option.startswith(_LOGIN_CONFIG)]
    return found[-1].removeprefix("=").removeprefix("file:") if found else None


def _read_jaas(path: str, read: ReadFile) -> str:
    try:
        return read(path)
    except ConfigError as error:
        raise ConfigError(f"{_JAVA_OPTIONS}: {error}") from error


def _create_jaas(environment: Mapping[str, str]) -> str:
    users, passwords = (_split_list(environment, variable) for variable in (_USERS, _PASSWORDS))
    if len(users) != len(passwords):
        raise ConfigError(
            f"{_USERS} names {len(users)} users, and {_PASSWORDS} has {len(passwords)} passwords"
        )
    options = (
        f"{_quote(f'user_{user}')}={_quote(password)}"
        for user, password in zip(users, passwords, strict=True)
    )
    return f"KafkaServer {{ {_PLAIN} required {' '.join(options)}; }};"


def _split_list(environment: Mapping[str, str], variable: str) -> list[str]:
    return _get_value(environment, variable).replace(";", ",").split(",")


def _quote(text: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return f'"{text}"'
