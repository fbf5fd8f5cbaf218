"""The data plane's broker properties under Kafka's names, and all broker properties for DescribeConfigs."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from coordinator.config.config_def import ConfigKey, ConfigSource, ConfigType
from coordinator.config.topic_config_keys import DYNAMIC_DEFAULTS
from coordinator.core.shared_types import LogFlush

MAX_PARTITIONS: Final = 10_000
"""The maximum number of partitions that one request may create. Kafka limits the records of one operation to
the same number."""
MAX_CONFIGURED_GROUPS: Final = 10_000
MAX_CONFIGS: Final = 1_000
"""The maximum number of configs of a topic in one request. About forty exist; Kafka has no limit."""


class DataPlaneConfig(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in milliseconds. Built once at start; `coordinator/config` declares defaults and
    bounds.
    """

    node_id: int
    num_partitions: int
    default_replication_factor: int
    accept_any_replication_factor: bool
    offsets_topic_num_partitions: int
    max_open_files: int
    """The system's limit on open files of the process."""
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
    """Explicitly set Kafka broker properties (`log.retention.hours`, …), the defaults of topics."""


class BrokerConfig(Struct, frozen=True):
    """One broker property. `text` is the explicitly set value, or None."""

    key: ConfigKey
    text: str | None

    @property
    def default(self) -> str | None:
        """The default value as text; None for no default. Only strings and lists may have an empty default."""
        may_be_empty = self.key.kind in (ConfigType.STRING, ConfigType.LIST)
        return self.key.default if self.key.default or may_be_empty else None

    @property
    def is_sensitive(self) -> bool:
        """Whether responses must not contain the value."""
        return self.key.kind is ConfigType.PASSWORD

    @property
    def value(self) -> str | None:
        """The effective value; None if unset or sensitive."""
        if self.is_sensitive:
            return None
        return self.default if self.text is None else self.text

    @property
    def dynamic_default(self) -> tuple[tuple[str, str | None, ConfigSource], ...]:
        """The synonym for a property that is set for all brokers of the cluster; otherwise empty."""
        if self.key.name not in DYNAMIC_DEFAULTS:
            return ()
        return ((self.key.name, self.value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),)

    def synonyms(self) -> tuple[tuple[str, str | None, ConfigSource], ...]:
        """The sources of the value by precedence: the cluster's setting, the static setting, the default."""
        found = list(self.dynamic_default)
        if self.text is not None:
            found.append((self.key.name, self.value, ConfigSource.STATIC_BROKER_CONFIG))
        if self.default is not None:
            found.append((self.key.name, self.default, ConfigSource.DEFAULT_CONFIG))
        return tuple(found)
