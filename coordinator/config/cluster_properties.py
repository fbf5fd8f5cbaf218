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
        "FIRST-LAST: the ports on which namespaces listen, one each; a container has to publish them. Default: any "
        "that is free. groupd's own.",
        PORT_RANGE,
    )
    namespace_idle_timeout_ms: int = kafka_property(
        ConfigType.LONG,
        600_000,
        "A namespace to which nobody is connected, and which nobody has asked for over HTTP for so long, is "
        "removed; a negative value keeps it. groupd's own.",
        NumberRange(1, takes_negative=True),
    )
    namespace_max_bytes: int = kafka_property(
        ConfigType.LONG,
        _NAMESPACE_MAX_BYTES,
        "How much a namespace may have in its files, which are in memory; then they are as on a full disk. "
        "groupd's own.",
        at_least(1024 * 1024),
    )

    @property
    def namespace_port_numbers(self) -> range:
        """Empty: any that is free."""
        return parse_port_range(self.namespace_ports) or range(0)


_INT, _LONG, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_LIST, _PASSWORD = ConfigType.LIST, ConfigType.PASSWORD
_MIN_SESSION_MS: Final = 2000
"""etcd makes no lease shorter than that, with the election timeout that it has."""


class ClusterProperties(Properties):
    broker_rack: str = kafka_property(
        _STRING,
        "",
        "The rack of this broker, as clients are told; with --brokers N perhaps a list of N, by commas.",
        PRINTABLE,
    )
    broker_session_timeout_ms: int = kafka_property(
        _INT,
        9000,
        "In a cluster: after how long without a sign of life from this broker another takes over what it owns.",
    )
    cluster_etcd_endpoints: tuple[str, ...] = kafka_property(
        _LIST,
        (),
        "HOST:PORT, …: the nodes of the etcd on which this broker and others are a cluster; default: none, and no "
        "cluster. groupd's own.",
        ENDPOINTS,
    )
    cluster_etcd_prefix: str = kafka_property(
        _STRING, "/groupd", "Below which keys in etcd the cluster is. groupd's own.", KEY_PREFIX
    )
    cluster_etcd_username: str = kafka_property(_STRING, "", "The user in etcd. groupd's own.", PRINTABLE)
    cluster_etcd_password: str = kafka_property(_PASSWORD, "", "That user's password. groupd's own.")
    cluster_etcd_ca: str = kafka_property(
        _STRING,
        "",
        "A file with the certificates of who may sign etcd's, in PEM; with it connections are encrypted. groupd's "
        "own.",
        FILE,
    )
    cluster_etcd_cert: str = kafka_property(
        _STRING, "", "A file with the certificate to show to etcd, in PEM. groupd's own.", FILE
    )
    cluster_etcd_key: str = kafka_property(
        _STRING, "", "A file with the key of that certificate, in PEM. groupd's own.", FILE
    )
    cluster_etcd_quota_bytes: int = kafka_property(
        _LONG,
        0,
        "How large the database of etcd may grow (its --quota-backend-bytes), to warn in time; default: what etcd "
        "says from 3.6 on, else 2 GiB, its own default. groupd's own.",
        at_least(0),
    )
    cluster_append_timeout_ms: int = kafka_property(
        _INT,
        500,
        "How long one try to bring commits to etcd may take before the same is tried at another node of it. "
        "groupd's own.",
        between(1, 60_000),
    )
    cluster_topics_max_bytes: int = kafka_property(
        _LONG,
        1 << 30,
        "How much etcd may have of the records of all topics with more than one replica; producers are told "
        "KAFKA_STORAGE_ERROR beyond. groupd's own.",
        at_least(0),
    )
    default_replication_factor: int = kafka_property(
        _INT,
        1,
        "How many replicas topics have that are made automatically, or that leave it open; the records of a topic "
        "with more than one are in etcd. Without a cluster it does nothing: there is one.",
    )
    cluster_move_delay_ms: int = kafka_property(
        _LONG,
        10_000,
        "How long a broker of the cluster has to live before others give it its share. groupd's own.",
        at_least(0),
    )

    inter_broker_listener_name: str = kafka_property(
        _STRING,
        "",
        "By which listener the brokers of a cluster reach each other; default: what security.inter.broker.protocol "
        "says, else the first that is PLAINTEXT. Without a cluster it does nothing.",
        PRINTABLE,
    )

    @property
    def is_cluster(self) -> bool:
        """Whether this broker is one of a cluster."""
        return bool(self.cluster_etcd_endpoints)

    def check_cluster(self) -> None:
        """Raises ConfigError for what does not go together."""
        for one, other in (("username", "password"), ("cert", "key")):
            names = f"cluster.etcd.{one}", f"cluster.etcd.{other}"
            values = [getattr(self, name.replace(".", "_")) for name in names]
            if bool(values[0]) != bool(values[1]):
                raise ConfigError(f"{names[0]} and {names[1]} are there together, or not at all", *names)
        if self.cluster_etcd_cert and not self.cluster_etcd_ca:
            raise ConfigError(
                "cluster.etcd.cert is of no use without cluster.etcd.ca",
                "cluster.etcd.cert",
                "cluster.etcd.ca",
            )
        if not self.is_cluster:
            return
        if self.broker_session_timeout_ms < _MIN_SESSION_MS:
            name = "broker.session.timeout.ms"
            raise ConfigError(
                f"{name} ({self.broker_session_timeout_ms}) is less than {_MIN_SESSION_MS}, and etcd ends no "
                "session sooner",
                name,
            )
