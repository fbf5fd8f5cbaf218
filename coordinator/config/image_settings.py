"""What variables of other Kafka images, and the volumes of a container, change about the settings.

Outside of a container another program may use a variable such as NODE_ID, or a path such as /kafka. They count only
where GROUPD_IMAGE=true, which groupd's own image sets.

Source: the Dockerfiles and the start scripts of the images that `IMAGE_VARIABLES` names.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from coordinator.config.advertised_host import find_advertised_host
from coordinator.config.initial_topics import (
    CREATE_TOPICS,
    KAFKA_CREATE_TOPICS,
    SEPARATOR,
    parse_initial_topics,
)
from coordinator.config.listeners import names_without_protocol
from coordinator.config.properties import parse_config
from coordinator.config.settings import DEFAULTS, ENVIRONMENT, Origin, Settings
from coordinator.config.start_notices import StartNotice

IN_IMAGE: Final = "GROUPD_IMAGE"
_NODE_IDS: Final = ("BROKER_ID", "NODE_ID")
"""The later one wins, as in debezium/kafka."""
_CLUSTER_IDS: Final = ("CLUSTER_ID",)
_IMAGE_CLUSTER_IDS: Final = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
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
"""The data directory by the path of a volume: where an image of Kafka that has a volume there keeps its data.

`{node}` stands for node.id. wurstmeister/kafka adds the name of the container to its directory below /kafka, and a
new container then finds no data; groupd leaves the name out.
"""


class ContainerVolumes(NamedTuple):
    """The volumes of a container: their paths, and whether the process may write to the directory at a path."""

    mount_points: Collection[str]
    is_writable: Callable[[str], bool]


def is_in_image(environment: Mapping[str, str]) -> bool:
    """Whether the environment is that of groupd's image."""
    return environment.get(IN_IMAGE, "").strip().lower() == "true"


def find_cluster_id(environment: Mapping[str, str], *, in_image: bool) -> tuple[str, str]:
    """Return the variable that has the id of a new cluster, and the id; an empty id where none has."""
    for variable in _IMAGE_CLUSTER_IDS if in_image else _CLUSTER_IDS:
        if text := environment.get(variable, "").strip():
            return variable, text
    return _CLUSTER_IDS[0], ""


def apply_image_variables(settings: Settings, environment: Mapping[str, str]) -> set[str]:
    """Set what variables of images say about node id and topics; properties that are set as such win. Return the
    variables that have an effect."""
    used = set()
    if settings.in_image:
        used.add(find_cluster_id(environment, in_image=True)[0])
        for variable in _NODE_IDS:
            if text := environment.get(variable, "").strip():
                settings.set(_NODE_ID, text, Origin(ENVIRONMENT, variable))
    topics, problems = parse_initial_topics(environment, in_image=settings.in_image)
    settings.initial_topics = topics
    for problem in problems:
        settings.warn(problem)
    return used | {KAFKA_CREATE_TOPICS, CREATE_TOPICS, SEPARATOR}


def apply_listener_variables(settings: Settings, environment: Mapping[str, str]) -> None:
    """Set what variables say about listeners where the properties for it are not set. Raises ConfigError."""
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
        settings.warn(found.problem)
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
    if _CONTROLLER in names_without_protocol(config):
        settings.set(_CONTROLLERS, _CONTROLLER, origin)


def use_data_volume(settings: Settings, find_volumes: Callable[[], ContainerVolumes]) -> None:
    """Put the data into the volume that is mounted where an image of Kafka has its own, unless log.dirs is set."""
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
        settings.warn(
            f"{path} is a volume that groupd cannot write to, so that the data is in "
            f"{settings.texts.get(_LOG_DIRS, 'log.dirs')} instead: give the volume to groupd's user "
            "(chown -R 10001:10001), or run the container as the owner of the volume (user: in a compose file)"
        )
