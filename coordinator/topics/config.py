"""The broker properties that the data plane obeys, under Kafka's names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.names import LogFlush

MAX_PARTITIONS: Final = 10_000
"""Most partitions that one request may create. Kafka has the same bound on records of one operation."""
MOST_CONFIGURED_GROUPS: Final = 10_000
MOST_CONFIGS: Final = 1_000
"""That one request may set of a topic. There are some forty; Kafka has no bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
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
