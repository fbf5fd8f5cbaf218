"""The broker properties of the data plane under Kafka's names, and the broker's properties as DescribeConfigs
shows them.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from coordinator.config.config_def import ConfigKey, ConfigSource, ConfigType
from coordinator.config.topic_config_keys import DYNAMIC_DEFAULTS
from coordinator.core.shared_types import LogFlush

MAX_PARTITIONS: Final = 10_000
"""Most partitions that one request may create. Kafka has the same bound on records of one operation."""
MAX_CONFIGURED_GROUPS: Final = 10_000
MAX_CONFIGS: Final = 1_000
"""That one request may set of a topic. There are some forty; Kafka has no bound."""


class DataPlaneConfig(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in milliseconds. Built once, at the start; defaults and bounds are declared in
    `coordinator/config`.
    """

    node_id: int
    num_partitions: int
    default_replication_factor: int
    accept_any_replication_factor: bool
    offsets_topic_num_partitions: int
    max_open_files: int
    """Of the process: a limit of the system's."""
    open_files_reserved: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_incremental_fetch_session_cache_partitions: int
    max_request_partition_size_limit: int
    producer_id_expiration_ms: int
    transaction_partition_verification_enable: bool
    log_flush: LogFlush
    broker_properties: Mapping[str, str]
    """Kafka's broker properties that were set explicitly (`log.retention.hours`, …): the defaults of
    topics.
    """


class BrokerConfig(Struct, frozen=True):
    """One broker property; `text` is what was set explicitly, None where nothing was."""

    key: ConfigKey
    text: str | None

    @property
    def default(self) -> str | None:
        """None means it has none; the empty text is one for words and lists alone."""
        may_be_empty = self.key.kind in (ConfigType.STRING, ConfigType.LIST)
        return self.key.default if self.key.default or may_be_empty else None

    @property
    def is_sensitive(self) -> bool:
        """Whether nobody may be told its value."""
        return self.key.kind is ConfigType.PASSWORD

    @property
    def value(self) -> str | None:
        """The effective value; None where there is none, or where it is sensitive."""
        if self.is_sensitive:
            return None
        return self.default if self.text is None else self.text

    @property
    def dynamic_default(self) -> tuple[tuple[str, str | None, ConfigSource], ...]:
        """The synonym of a property that is set for all brokers of the cluster, else nothing."""
        if self.key.name not in DYNAMIC_DEFAULTS:
            return ()
        return ((self.key.name, self.value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),)

    def synonyms(self) -> tuple[tuple[str, str | None, ConfigSource], ...]:
        """Where the value comes from, best first: the cluster's setting, the one at the start, the default."""
        found = list(self.dynamic_default)
        if self.text is not None:
            found.append((self.key.name, self.value, ConfigSource.STATIC_BROKER_CONFIG))
        if self.default is not None:
            found.append((self.key.name, self.default, ConfigSource.DEFAULT_CONFIG))
        return tuple(found)
