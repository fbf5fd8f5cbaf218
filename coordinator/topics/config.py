"""The broker properties that the data plane obeys, under Kafka's names, with Kafka's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from coordinator.names import LogFlush


@dataclass(frozen=True, slots=True)
class TopicsConfig:
    """Sizes in bytes, times in milliseconds. Built once, at the start."""

    node_id: int = 1
    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    fetch_max_bytes: int = 55 * 1024 * 1024
    max_incremental_fetch_session_cache_slots: int = 1000
    max_request_partition_size_limit: int = 2000
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    log_flush: LogFlush = LogFlush.OS
    max_partitions: int = 10_000
    """Most partitions that one request may create. Kafka has the same bound on records of one operation."""
    broker_properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kafka's broker properties that were set explicitly (`log.retention.hours`, …): the defaults of
    topics.
    """
