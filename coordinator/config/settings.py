"""The merged properties of a broker with their sources, and the notices of a start about them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field

from coordinator.config.config_errors import ConfigError, StartNotice
from coordinator.config.initial_topics import InitialTopic
from coordinator.config.listener_properties import GSSAPI, check_listener_names, check_listener_values
from coordinator.config.listeners import (
    Listener,
    find_listener_names,
    format_wildcard_listeners,
    parse_http_listener,
    parse_listeners,
)
from coordinator.config.properties import SYNONYMS, Config, parse_config
from coordinator.config.unsupported_settings import UNSUPPORTED_PROPERTIES, describe_unsupported_setting
from coordinator.core.message_text import escape_unprintable
from coordinator.core.shared_types import SecurityProtocol

if TYPE_CHECKING:
    from coordinator.config.listener_settings import ListenerSettings

DEFAULTS: Final = "the defaults"
ENVIRONMENT: Final = "the environment"
_LISTENERS: Final = "listeners"
_ADVERTISED: Final = "advertised.listeners"
_QUORUMS: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_CONTROL: Final = "control.enable"
_CONTROL_GUARDS: Final = ("authorizer.class.name", "control.token", "control.token.file")
_FACTOR: Final = "default.replication.factor"
_MECHANISMS: Final = "sasl.enabled.mechanisms"


class Origin(NamedTuple):
    """The source of a property, and the name in the source."""

    source: str
    label: str


class Settings(Struct):
    """Properties as text, each with its last source, and the notices of a start."""

    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    ignored: dict[str, list[str]] = field(default_factory=dict)
    """Names without an effect, by source."""
    notices: list[StartNotice] = field(default_factory=list)
    """Notices about single properties or variables."""
    quorum: dict[str, int] = field(default_factory=dict)
    """The number of controllers in a property that lists them, by the label of its source."""
    in_image: bool = False
    """Whether groupd runs in its own image and applies the variables of Kafka's images."""
    initial_topics: list[InitialTopic] = field(default_factory=list)
    """Topics that variables of images request."""
    cluster_id: str | None = None
    """The cluster id for a new data directory (CLUSTER_ID, as in Kafka's image); None: groupd generates one."""
    jaas_file: Callable[[], tuple[str, str]] | None = None
    """Reads the JAAS configuration of the environment. Returns its name for messages and its text, and raises
    ConfigError. None without such a configuration."""

    def set(self, name: str, text: str, origin: Origin) -> None:
        """Set a property; the last call wins."""
        newer = SYNONYMS.get(name, name)
        self.texts[newer] = text
        self.origins[newer] = origin

    def parse(self) -> Config:
        """Parse and check all properties. Raises ConfigError with the property and its source."""
        with self.locate_errors():
            config = parse_config(self.texts)
            check_listener_values(self.texts)
            listeners, _ = parse_listeners(config)
            check_listener_names(self.texts, find_listener_names(config))
            self.create_listener_settings(config, listeners)
            parse_http_listener(config)
            if config.is_cluster and "/" in (self.cluster_id or ""):
                raise ConfigError(
                    f"CLUSTER_ID: {self.cluster_id} must not contain '/' in a cluster on etcd: the id is part of "
                    "etcd's keys"
                )
        return config

    def create_listener_settings(
        self, config: Config, listeners: Iterable[Listener]
    ) -> dict[str, "ListenerSettings"]:
        """Return the security of each listener that is not PLAINTEXT, by its name. Raises ConfigError."""
        found: dict[str, ListenerSettings] = {}
        for listener in listeners:
            if listener.protocol is not SecurityProtocol.PLAINTEXT:
                from coordinator.config.listener_security import create_listener_settings  # slow to load

                found[listener.name] = create_listener_settings(config, self.texts, listener, self.jaas_file)
        return found

    def is_default(self, name: str) -> bool:
        """Return whether a property has its default, Kafka's or that of the image."""
        return name not in self.origins or self.origins[name].source == DEFAULTS

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Add the sources of the invalid properties to each ConfigError of the block."""
        try:
            yield
        except ConfigError as error:
            labels = dict.fromkeys(self.origins[name].label for name in error.names if name in self.origins)
            text = f"{', '.join(labels)}: {error}" if labels else str(error)
            raise ConfigError(text, *error.names) from error

    def withdraw_open_control(self) -> None:
        """Remove the image's default of control.enable if an authorizer or a control token is set.

        The image opens the control API by default. With an authorizer or a token the API must be protected, so the
        property then has groupd's default, `auto`.
        """
        if (
            _CONTROL in self.origins
            and self.is_default(_CONTROL)
            and any(map(self.texts.get, _CONTROL_GUARDS))
        ):
            del self.texts[_CONTROL], self.origins[_CONTROL]

    def listen_where_advertised(self) -> None:
        """Set `listeners` to the ports of `advertised.listeners` on every address, as Kafka's images do, if the
        environment sets `advertised.listeners` and `listeners` has its default. Raises ConfigError."""
        advertised = self.origins.get(_ADVERTISED)
        if self.is_default(_LISTENERS) and advertised is not None and advertised.source == ENVIRONMENT:
            with self.locate_errors():
                addresses = parse_config({_ADVERTISED: self.texts[_ADVERTISED]}).advertised_listeners
                self.set(_LISTENERS, format_wildcard_listeners(addresses), advertised)

    def note_ignored(self, name: str, text: str, origin: Origin) -> None:
        """Record a property of Kafka, or of a distribution of it, that has no effect in groupd. If its value
        requests a function that groupd lacks, add a warning instead.
        """
        label = f"{origin.label}: {name}" if origin.label == origin.source else origin.label
        unsupported = UNSUPPORTED_PROPERTIES.get(name)
        controllers = len(set(text.split(","))) if name in _QUORUMS else 1
        if unsupported is not None and unsupported.is_requested(text):
            self.add_warning(describe_unsupported_setting(label, unsupported))
        elif controllers > 1:
            self.quorum[label] = controllers
        else:
            shown = label if origin.source == ENVIRONMENT else name
            self.ignored.setdefault(origin.source, []).append(shown)

    def mark_effective(self, variables: Collection[str]) -> None:
        """Remove variables of the environment from the names without an effect."""
        names = self.ignored.get(ENVIRONMENT, [])
        names[:] = [name for name in names if name not in variables]

    def add_warning(self, text: str) -> None:
        """Add a warning to the notices."""
        self.notices.append(StartNotice(text))

    def start_notices(self, closed: Iterable[str] = (), brokers: int = 1) -> list[StartNotice]:
        """Return the notices of a start about the configuration, information first.

        `closed` are the names of listeners that stay closed; `brokers` is the number of brokers in this process.
        """
        ignored = {source: sorted(names) for source, names in self.ignored.items()}
        for name in closed:
            source = self.origins[_LISTENERS].source
            ignored.setdefault(source, []).append(f"the listener {name}")
        found = [
            StartNotice(
                f"Ignored from {source}, because they have no effect in groupd: {', '.join(names)}",
                is_warning=False,
            )
            for source, names in ignored.items()
            if names
        ]
        found += self.notices
        found += map(StartNotice, self._warn_of_kerberos())
        if not self.texts.get("cluster.etcd.endpoints"):
            found += map(StartNotice, self._warn_of_missing_brokers(brokers))
        found.sort(key=lambda notice: notice.is_warning)
        return [notice._replace(text=escape_unprintable(notice.text)) for notice in found]

    def _warn_of_kerberos(self) -> Iterator[str]:
        """Yield a warning for each property that enables GSSAPI beside mechanisms that groupd has."""
        for name, text in self.texts.items():
            mechanisms = [part.strip() for part in text.split(",")] if name.endswith(_MECHANISMS) else []
            others = ", ".join(mechanism for mechanism in mechanisms if mechanism != GSSAPI)
            if GSSAPI in mechanisms and others:
                yield (
                    f"{self.origins[name].label}: {GSSAPI} has no effect, because groupd has no Kerberos: let "
                    f"clients log in by {others}"
                )

    def _warn_of_missing_brokers(self, brokers: int) -> Iterator[str]:
        """Yield a warning for each property that needs more brokers than this process has."""
        for label, controllers in self.quorum.items():
            if brokers == 1:
                yield (
                    f"{label} names {controllers} controllers, but this groupd is a single broker with its own "
                    f"topics and groups: run one groupd with --brokers {controllers}, or a cluster on "
                    "etcd (cluster.etcd.endpoints)"
                )
        factor = self.texts.get(_FACTOR, "")
        if factor.isdigit() and int(factor) > 1:
            yield (
                f"{self.origins[_FACTOR].label}={factor} has no effect, because records have one replica without "
                "a cluster on etcd (cluster.etcd.endpoints)"
            )
