"""Properties of namespaces and of a cluster on etcd, as bases of `Config`. A broker belongs to a cluster only
if `cluster.etcd.endpoints` is set.
"""

from typing import Final

from coordinator.config.config_def import (
    ConfigType,
    NumberRange,
    Properties,
    at_least,
    between,
    kafka_property,
)
from coordinator.config.config_errors import ConfigError
from coordinator.config.validators import ENDPOINTS, FILE, KEY_PREFIX, PORT_RANGE, PRINTABLE, parse_port_range

_NAMESPACE_MAX_BYTES: Final = 64 * 1024 * 1024


class NamespaceProperties(Properties):
    namespace_ports: str = kafka_property(
        ConfigType.STRING,
        "",
        "FIRST-LAST: the ports of namespaces, one each; a container must publish them. Default: any free "
        "port. groupd's own.",
        PORT_RANGE,
    )
    namespace_idle_timeout_ms: int = kafka_property(
        ConfigType.LONG,
        600_000,
        "groupd removes a namespace without connections and HTTP requests after this time; a negative value "
        "keeps it. groupd's own.",
        NumberRange(1, takes_negative=True),
    )
    namespace_max_bytes: int = kafka_property(
        ConfigType.LONG,
        _NAMESPACE_MAX_BYTES,
        "The maximum size of a namespace's files, which are in memory. A namespace at this size acts as on a "
        "full disk. groupd's own.",
        at_least(1024 * 1024),
    )

    @property
    def namespace_port_numbers(self) -> range:
        """The port numbers of namespaces; an empty range allows any free port."""
        return parse_port_range(self.namespace_ports) or range(0)


_INT, _LONG, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_LIST, _PASSWORD = ConfigType.LIST, ConfigType.PASSWORD
_MIN_SESSION_MS: Final = 2000
"""The shortest lease that etcd grants with its default election timeout."""


class ClusterProperties(Properties):
    broker_rack: str = kafka_property(
        _STRING,
        "",
        "The rack of this broker in metadata; with --brokers N optionally a list of N racks, separated by "
        "commas.",
        PRINTABLE,
    )
    broker_session_timeout_ms: int = kafka_property(
        _INT,
        9000,
        "In a cluster: the time without a sign of life from this broker after which other brokers take over "
        "its partitions.",
    )
    cluster_etcd_endpoints: tuple[str, ...] = kafka_property(
        _LIST,
        (),
        "HOST:PORT, …: the etcd nodes of a cluster; default: none, and no cluster. groupd's own.",
        ENDPOINTS,
    )
    cluster_etcd_prefix: str = kafka_property(
        _STRING, "/groupd", "The prefix of the cluster's keys in etcd. groupd's own.", KEY_PREFIX
    )
    cluster_etcd_username: str = kafka_property(
        _STRING, "", "The user name for etcd. groupd's own.", PRINTABLE
    )
    cluster_etcd_password: str = kafka_property(_PASSWORD, "", "The password for etcd. groupd's own.")
    cluster_etcd_ca: str = kafka_property(
        _STRING,
        "",
        "A PEM file with the certificates of the authorities that sign etcd's certificate; it enables TLS. "
        "groupd's own.",
        FILE,
    )
    cluster_etcd_cert: str = kafka_property(
        _STRING, "", "A PEM file with the client certificate for etcd. groupd's own.", FILE
    )
    cluster_etcd_key: str = kafka_property(
        _STRING, "", "A PEM file with the key of cluster.etcd.cert. groupd's own.", FILE
    )
    cluster_etcd_quota_bytes: int = kafka_property(
        _LONG,
        0,
        "The quota of the etcd database (its --quota-backend-bytes), for timely warnings. Default: the quota "
        "that etcd 3.6 and later report, else 2 GiB, which is etcd's default. groupd's own.",
        at_least(0),
    )
    cluster_append_timeout_ms: int = kafka_property(
        _INT,
        500,
        "The timeout of one write of commits to etcd; groupd then retries at another etcd node. groupd's own.",
        between(1, 60_000),
    )
    cluster_topics_max_bytes: int = kafka_property(
        _LONG,
        1 << 30,
        "The maximum size in etcd of the records of all replicated topics; further records get "
        "KAFKA_STORAGE_ERROR. groupd's own.",
        at_least(0),
    )
    default_replication_factor: int = kafka_property(
        _INT,
        1,
        "The replication factor of topics that are created automatically or without one. The records of a "
        "topic with more than one replica are in etcd. Without a cluster every topic has one replica.",
    )
    cluster_move_delay_ms: int = kafka_property(
        _LONG,
        10_000,
        "The uptime after which a broker gets its share of partitions from the other brokers. groupd's own.",
        at_least(0),
    )

    inter_broker_listener_name: str = kafka_property(
        _STRING,
        "",
        "The listener between the brokers of a cluster; default: the one of security.inter.broker.protocol, "
        "else the first PLAINTEXT listener. It has no effect without a cluster.",
        PRINTABLE,
    )

    @property
    def is_cluster(self) -> bool:
        """Whether this broker belongs to a cluster on etcd."""
        return bool(self.cluster_etcd_endpoints)

    def check_cluster(self) -> None:
        """Check the properties against each other. Raises ConfigError."""
        for one, other in (("username", "password"), ("cert", "key")):
            names = f"cluster.etcd.{one}", f"cluster.etcd.{other}"
            values = [getattr(self, name.replace(".", "_")) for name in names]
            if bool(values[0]) != bool(values[1]):
                raise ConfigError(f"set both {names[0]} and {names[1]}, or neither", *names)
        if self.cluster_etcd_cert and not self.cluster_etcd_ca:
            raise ConfigError(
                "cluster.etcd.cert has no effect without cluster.etcd.ca: set both",
                "cluster.etcd.cert",
                "cluster.etcd.ca",
            )
        if not self.is_cluster:
            return
        if self.broker_session_timeout_ms < _MIN_SESSION_MS:
            name = "broker.session.timeout.ms"
            raise ConfigError(
                f"{name} ({self.broker_session_timeout_ms}) must be at least {_MIN_SESSION_MS}, the "
                "shortest session of etcd",
                name,
            )
