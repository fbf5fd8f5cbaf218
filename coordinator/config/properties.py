"""Every property that groupd applies, under Kafka's name, with Kafka's default and bounds.

A field of `Config` is a property: `group_max_size` is `group.max.size`. It is declared only once. A component that
uses properties has a class with fields of these names and without defaults; `Config.view` fills it. The
documentation of a property says if the property is groupd's own. The properties that only give topics their
defaults (`log.retention.hours`, …) are declared in `topic_config_keys.py`, and their values stay text.

Base classes of `Config` declare the properties of a cluster (`cluster_properties.py`), of transactions
(`transaction_properties.py`), of consumer groups (`consumer_group_properties.py`) and of security
(`security_properties.py`). Source: Kafka's `AbstractKafkaConfig`, `GroupCoordinatorConfig`, `SocketServerConfigs`,
`ServerLogConfigs`."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from coordinator.config.cluster_properties import ClusterProperties, NamespaceProperties
from coordinator.config.config_def import (
    ConfigKey,
    ConfigType,
    InvalidConfig,
    NumberRange,
    PropertyDeclaration,
    at_least,
    between,
    build_config_keys,
    kafka_property,
    one_of,
)
from coordinator.config.config_errors import ConfigError, create_contradiction
from coordinator.config.consumer_group_properties import ConsumerGroupProperties
from coordinator.config.security_properties import SecurityProperties
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.topic_configs import TopicDefaults
from coordinator.config.transaction_properties import TransactionProperties
from coordinator.config.validators import (
    CONNECTION_COUNTS,
    DIRECTORY,
    FILE,
    LISTENERS,
    NAME_LIST,
    TOKEN,
    parse_connection_counts,
)
from coordinator.core.shared_types import LogFlush

_INT, _LONG, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_BOOLEAN, _LIST, _PASSWORD = ConfigType.BOOLEAN, ConfigType.LIST, ConfigType.PASSWORD
_MAX_INT: Final = 2**31 - 1
_QUEUED_BYTES: Final = 256 * 1024 * 1024
V = TypeVar("V", bound=Struct)


_TOPIC_DEFAULTS: Final = {
    synonym.name: key.create_broker_key(synonym)
    for key in TOPIC_CONFIG_KEYS.values()
    for synonym in key.synonyms
}


def _topic_default_property(name: str) -> Any:
    """Declare a field as a broker property that gives topics their default and that groupd also uses by itself."""
    key = _TOPIC_DEFAULTS[name]
    return PropertyDeclaration(key.kind, key.default, key.parse(key.default), key.documentation, key.bounds)


class Config(
    ClusterProperties,
    NamespaceProperties,
    ConsumerGroupProperties,
    TransactionProperties,
    SecurityProperties,
):
    """The parsed properties. The end of a name is the unit of a time; sizes are in bytes."""

    # The process
    node_id: int = kafka_property(_INT, 1, "The id of this broker; `broker.id` means the same.", at_least(0))
    listeners: tuple[str, ...] = kafka_property(
        _LIST, ("PLAINTEXT://127.0.0.1:9092",), "The addresses for clients: NAME://HOST:PORT, …", LISTENERS
    )
    advertised_listeners: tuple[str, ...] = kafka_property(
        _LIST,
        (),
        "The addresses in metadata, by listener name. Default: the address of the listener; for a listener on "
        "every address, the address that the client used.",
        LISTENERS,
    )
    listener_security_protocol_map: str = kafka_property(
        _STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "NAME:PROTOCOL, …: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    controller_listener_names: tuple[str, ...] = kafka_property(
        _LIST, (), "The names of controller listeners, which groupd does not open.", NAME_LIST
    )
    http_listener: str = kafka_property(
        _STRING,
        "127.0.0.1:9080",
        "HOST:PORT of the API, /health, /ready and /metrics; `off` disables the port. groupd's own.",
    )
    http_max_connections: int = kafka_property(
        _INT,
        100,
        "The maximum number of connections to the HTTP port, never more than an eighth of the process's file "
        "descriptors. A further connection replaces the one that has been idle longest. Waits and streams use "
        "at most three quarters. groupd's own.",
        at_least(1),
    )
    http_request_timeout_ms: int = kafka_property(
        _INT,
        20_000,
        "The time for a request to the HTTP port to arrive, from the connection or the previous response, and "
        "for its response to be read. groupd's own.",
        at_least(1),
    )
    control_enable: str = kafka_property(
        _STRING,
        "auto",
        "Access to changes of groups over HTTP. A token that is set is always needed. Without a token, `auto` "
        "allows changes only if the port is bound to this machine only; `true` does the same, but groupd refuses "
        "to start if the port is bound to more; `open` allows changes on every address. `false` allows no changes. "
        "Faults that crash the process need `true` or `open`. With authorizer.class.name `auto` needs a token for "
        "reads and changes. groupd's own.",
        one_of("auto", "true", "false", "open"),
    )
    control_token: str = kafka_property(
        _PASSWORD,
        "",
        "The token for changes of groups over HTTP, on any address: `Authorization: Bearer TOKEN`. groupd's "
        "own.",
        TOKEN,
    )
    control_token_file: str = kafka_property(
        _STRING,
        "",
        "A file with the token, instead of control.token. groupd's own.",
        FILE,
    )
    control_hosts: tuple[str, ...] = kafka_property(
        _LIST,
        (),
        "Further host names in requests that change groups over HTTP, such as the name of a service or "
        "container. The names of this machine and the address in http.listener are always accepted. groupd's "
        "own.",
        NAME_LIST,
    )
    ledger_bytes: int = kafka_property(
        _LONG,
        16 * 1024 * 1024,
        "The maximum memory of the rebalance ledger of all groups together. Above it groupd drops the oldest "
        "entry of the group with the most memory, and keeps the last two entries of each group as long as "
        "these fit. groupd's own.",
        at_least(0),
    )
    ledger_file: str = kafka_property(
        _STRING,
        "",
        "A file to which groupd also writes the rebalance ledger, as JSON lines; after 64 MiB the file is "
        "renamed to `….1`. Default: none. groupd's own.",
        FILE,
    )
    log_dirs: tuple[str, ...] = kafka_property(
        _LIST,
        ("./data",),
        "The data directory; `log.dir` means the same.",
        DIRECTORY,
    )
    # Sockets
    socket_request_max_bytes: int = kafka_property(
        _INT,
        100 * 1024 * 1024,
        "The maximum size of a request; a larger one closes the connection.",
        at_least(1),
    )
    socket_listen_backlog_size: int = kafka_property(
        _INT, 4096, "The maximum number of connections that wait to be accepted.", at_least(1)
    )
    connections_max_idle_ms: int = kafka_property(
        _LONG,
        600_000,
        "groupd closes a connection that is idle for this time; a negative value keeps it.",
        NumberRange(1, takes_negative=True),
    )
    open_files_reserved: int = kafka_property(
        _INT,
        256,
        "File descriptors reserved for connections, listeners and small files, at most half of the process's "
        "limit. The remaining ones limit the number of partitions. groupd's own.",
        at_least(0),
    )
    queued_max_request_bytes: int = kafka_property(
        _LONG,
        _QUEUED_BYTES,
        "The maximum memory of all requests in receipt; above it groupd reads no further request. 0 or less: "
        "no limit; otherwise not below socket.request.max.bytes, to which the default grows.",
    )
    queued_max_request_stall_ms: int = kafka_property(
        _INT,
        30_000,
        "While requests wait for queued.max.request.bytes, each started request must receive a tenth of its "
        "bytes in this time, or groupd closes its connection. groupd's own.",
        at_least(1),
    )
    max_connections: int = kafka_property(
        _INT,
        _MAX_INT,
        "The maximum number of connections; further ones wait until one is closed.",
        at_least(0),
    )
    max_connections_per_ip: int = kafka_property(
        _INT,
        _MAX_INT,
        "The maximum number of connections from one address; further ones are closed at once. 0 needs "
        "max.connections.per.ip.overrides.",
        at_least(0),
    )
    max_connections_per_ip_overrides: str = kafka_property(
        _STRING, "", "HOST:COUNT, …: other limits for single addresses.", CONNECTION_COUNTS
    )
    # Groups
    group_min_session_timeout_ms: int = kafka_property(
        _INT, 6000, "The shortest session timeout that a member can request.", at_least(0)
    )
    group_max_session_timeout_ms: int = kafka_property(
        _INT,
        1_800_000,
        "The longest session timeout that a member can request; not below group.min.session.timeout.ms.",
        at_least(0),
    )
    group_initial_rebalance_delay_ms: int = kafka_property(
        _INT, 3000, "How long the first rebalance of an empty group waits for more members.", at_least(0)
    )
    group_max_size: int = kafka_property(
        _INT, _MAX_INT, "The maximum number of members of a group.", at_least(1)
    )
    # Oracles
    oracle_orphan_ms: int = kafka_property(
        _INT,
        5000,
        "The time that a partition of a subscribed topic may have no owner in a Stable group before this is a "
        "violation. groupd's own.",
        at_least(0),
    )
    oracle_stuck_ms: int = kafka_property(
        _INT,
        30_000,
        "The time that a rebalance may exceed its deadline before this is a violation. The deadline follows "
        "from the session and rebalance timeouts of the members. Only time that has also passed in reality "
        "counts. groupd's own.",
        at_least(1),
    )
    oracle_commits: bool = kafka_property(
        _BOOLEAN,
        False,
        "Whether commits that lower an offset or pass the end of the log are reported as notices. Namespaces "
        "and --profile test enable it. groupd's own.",
    )
    # Offsets
    offset_metadata_max_bytes: int = kafka_property(
        _INT, 4096, "The maximum length of the metadata of a committed offset.", at_least(0)
    )
    offsets_retention_minutes: int = kafka_property(
        _INT, 7 * 24 * 60, "The time that groupd keeps the offsets of a group without members.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = kafka_property(
        _LONG, 600_000, "The interval between searches for expired offsets.", at_least(1)
    )
    offsets_topic_num_partitions: int = kafka_property(
        _INT, 50, "Partitions of __consumer_offsets when it is created.", at_least(1)
    )
    offsets_topic_segment_bytes: int = kafka_property(
        _INT, 100 * 1024 * 1024, "Size of a segment of __consumer_offsets.", at_least(1)
    )
    offsets_topic_compression_codec: int = kafka_property(
        _INT,
        0,
        "Codec of the batches in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
    )
    offsets_history: str = kafka_property(
        _STRING,
        "compact",
        "Superseded records in __consumer_offsets: `compact` removes them as Kafka does, `keep` keeps the "
        "whole history. groupd's own.",
        one_of("compact", "keep"),
    )
    message_max_bytes: int = _topic_default_property("message.max.bytes")
    # Topics
    num_partitions: int = kafka_property(
        _INT, 1, "Partitions of a topic that is created automatically.", at_least(1)
    )
    accept_any_replication_factor: bool = kafka_property(
        _BOOLEAN,
        False,
        "Whether a new topic may have a replication factor above the number of brokers. The topic gets as many "
        "replicas as possible, and a warning names it. Otherwise the error is INVALID_REPLICATION_FACTOR, as in "
        "Kafka. groupd's own.",
    )
    auto_create_topics_enable: bool = kafka_property(
        _BOOLEAN, True, "Whether a metadata request for an unknown topic creates it."
    )
    delete_topic_enable: bool = kafka_property(_BOOLEAN, True, "Whether topics can be deleted.")
    fetch_max_bytes: int = kafka_property(
        _INT, 55 * 1024 * 1024, "The maximum size of the response to a fetch.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = kafka_property(
        _INT, 1000, "The maximum number of incremental fetch sessions.", at_least(0)
    )
    max_incremental_fetch_session_cache_partitions: int = kafka_property(
        _INT,
        200_000,
        "The maximum number of partitions in all incremental fetch sessions, of about 400 bytes each. "
        "groupd's own.",
        at_least(0),
    )
    max_request_partition_size_limit: int = kafka_property(
        _INT, 2000, "The maximum number of partitions in a response to DescribeTopicPartitions.", at_least(1)
    )
    producer_id_expiration_ms: int = kafka_property(
        _INT,
        86_400_000,
        "The time that a partition keeps the sequence numbers of an idle producer. A partition keeps up to "
        "1,000,000 producers and refuses new ones above that.",
        at_least(1),
    )
    # The log
    log_flush: str = kafka_property(
        _STRING,
        "",
        "When records are flushed to the disk: `always` before the response, `interval` every "
        "log.flush.interval.ms, `os` when the operating system decides. Unset: always for __consumer_offsets, "
        "os for other topics. groupd's own.",
        one_of("", *LogFlush),
    )
    log_flush_interval_ms: int = kafka_property(
        _LONG, 1000, "The interval of log.flush=interval.", at_least(0)
    )
    log_journal_file_bytes: int = kafka_property(
        _INT,
        8 * 1024 * 1024,
        "With log.flush=always, the size of each of the two to four journal files; 0: no journal, each "
        "segment is synced separately. groupd's own.",
        at_least(0),
    )
    log_flush_offset_checkpoint_interval_ms: int = kafka_property(
        _INT,
        60_000,
        "The interval between checkpoints of the synced position of each log; 0: only at a clean stop.",
        at_least(0),
    )
    log_retention_check_interval_ms: int = kafka_property(
        _LONG, 300_000, "The interval between searches for segments that exceed the retention.", at_least(1)
    )

    log_cleaner_enable: bool = kafka_property(_BOOLEAN, True, "Whether logs are compacted.")
    log_cleaner_backoff_ms: int = kafka_property(
        _LONG, 15_000, "The pause of compaction when no log needs it.", at_least(0)
    )

    def check(self) -> None:
        """Check the properties against each other. Raises ConfigError."""
        shortest, longest = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if shortest > longest:
            raise create_contradiction(
                "group.min.session.timeout.ms", shortest, "exceeds", "group.max.session.timeout.ms", longest
            )
        queued, largest = self.queued_max_request_bytes, self.socket_request_max_bytes
        if 0 < queued < largest and queued != _QUEUED_BYTES:
            raise create_contradiction(
                "queued.max.request.bytes", queued, "is less than", "socket.request.max.bytes", largest
            )
        if self.max_connections_per_ip == 0 and not parse_connection_counts(
            self.max_connections_per_ip_overrides
        ):
            name = "max.connections.per.ip"
            raise ConfigError(
                f"{name}=0 rejects every connection that is not listed in {name}.overrides", name
            )
        if self.control_token and self.control_token_file:
            names = "control.token", "control.token.file"
            raise ConfigError(f"{names[0]} and {names[1]} are both set: set only one", *names)
        if self.control_enable == "open" and (self.control_token or self.control_token_file):
            raise ConfigError(
                "control.enable=open and control.token contradict each other: set only one",
                *("control.enable", "control.token", "control.token.file"),
            )
        self.check_consumer_groups()
        self.check_security(self.connections_max_idle_ms)
        self.check_cluster()
        if self.is_cluster and self.offsets_history == "keep":
            raise ConfigError(
                "offsets.history=keep is not allowed in a cluster, because etcd is too small for it",
                "offsets.history",
            )

    def view(self, view_class: type[V], **others: Any) -> V:
        """Return the properties of one component as an instance of its class. Other fields are in `others`."""
        shared = self.declarations.keys() & view_class.__struct_fields__
        return view_class(**{name: getattr(self, name) for name in shared} | others)


PROPERTIES: Final[Mapping[str, ConfigKey]] = build_config_keys(Config)
"""The properties of `Config` by Kafka's names, in the order of their declaration."""

SYNONYMS: Final[Mapping[str, str]] = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Newer names by Kafka's older names. If both are set, the newer one takes precedence."""

TOPIC_PROPERTIES: Final[Mapping[str, ConfigKey]] = {
    name: key for name, key in _TOPIC_DEFAULTS.items() if name not in PROPERTIES
}
"""Broker properties that give topics their defaults."""


def parse_config(texts: Mapping[str, str]) -> Config:
    """Parse the texts of properties, by Kafka's names; other properties have their defaults.

    Raises ConfigError with the name of the invalid property.
    """
    values: dict[str, Any] = {}
    try:
        for name, text in texts.items():
            if name in TOPIC_PROPERTIES:
                TOPIC_PROPERTIES[name].parse(text)
            elif name in PROPERTIES:
                value = PROPERTIES[name].parse(text)
                values[name.replace(".", "_")] = tuple(value) if isinstance(value, list) else value
        TopicDefaults({name: text for name, text in texts.items() if name in _TOPIC_DEFAULTS}).parse({})
    except InvalidConfig as error:
        raise ConfigError(str(error), error.name) from error
    return Config(**values)


def is_property(name: str) -> bool:
    """Return whether groupd applies a property of this name."""
    return name in PROPERTIES or name in TOPIC_PROPERTIES or name in SYNONYMS
