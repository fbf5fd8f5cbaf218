"""Every topic property, with the defaults of Kafka 4.4. Source: Kafka's `LogConfig` and `TopicConfig`.

groupd stores and reports all of them. The documentation of each property says whether groupd applies it.
"""

import re
from typing import Final

from coordinator.config.config_def import (
    ANY_VALUE,
    BrokerSynonym,
    ConfigKey,
    ConfigType,
    ConfigValue,
    CustomBounds,
    NumberRange,
    ValueBounds,
    at_least,
    between,
    one_of,
)
from storage.log_config import COMPACT, DELETE, LogConfig

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
DOUBLE, LIST = ConfigType.DOUBLE, ConfigType.LIST

SEGMENT_BYTES_MIN: Final = 1024 * 1024
LOG_APPEND_TIME: Final = "LogAppendTime"

MAX_ARRAY: Final = 2**31 - 9  # the longest array of a JVM
MAX_LONG: Final = 2**63 - 1
HOUR_MS: Final = 60 * 60 * 1000
DYNAMIC_DEFAULTS: Final = frozenset({"min.insync.replicas"})
"""Properties that the controller of a new cluster sets for all brokers, to their current values.

Source: KIP-966, Kafka's `ConfigurationControlManager.maybeGenerateElrSafetyRecords`.
"""
NO_EFFECT: Final = "  Accepted for compatibility; it has no effect."

_LOG: Final = LogConfig()
_REPLICA: Final = re.compile(r"(\d+:\d+)?", re.ASCII)


def _are_replicas(value: ConfigValue) -> bool:
    return isinstance(value, list) and (value == ["*"] or all(map(_REPLICA.fullmatch, value)))


_REPLICAS: Final = CustomBounds(
    "* or a list of PARTITION:BROKER",
    _are_replicas,
    "Invalid value {value} for configuration {name}: {name} must be the literal '*' or a list of replicas in the "
    "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
)
_RETENTION_BOUNDS: Final = NumberRange(1, takes_negative=True)
"""A broker property must not be 0, although the topic property may be. Every negative value means "for ever"."""


def _create_key(
    name: str,
    kind: ConfigType,
    default: object,
    documentation: str,
    bounds: ValueBounds = ANY_VALUE,
    *synonyms: str | BrokerSynonym,
) -> ConfigKey:
    as_synonyms = tuple(
        BrokerSynonym(synonym) if isinstance(synonym, str) else synonym for synonym in synonyms
    )
    return ConfigKey(name, kind, str(default), documentation, bounds, as_synonyms)


_RETENTION: Final = (
    _create_key(
        "cleanup.policy",
        LIST,
        _LOG.cleanup_policy,
        "The treatment of old segments: delete removes them by age and size, compact keeps the last value of "
        "each key. Both may be given, separated by a comma.",
        one_of(COMPACT, DELETE),
        "log.cleanup.policy",
    ),
    _create_key(
        "retention.ms",
        LONG,
        _LOG.retention_ms,
        "The minimum time that records are kept, in the unit of the name; -1 keeps them for ever.",
        at_least(-1),
        BrokerSynonym("log.retention.ms", bounds=_RETENTION_BOUNDS, has_default=False),
        BrokerSynonym("log.retention.minutes", 60_000, _RETENTION_BOUNDS, has_default=False),
        BrokerSynonym("log.retention.hours", HOUR_MS, _RETENTION_BOUNDS),
    ),
    _create_key(
        "retention.bytes",
        LONG,
        _LOG.retention_bytes,
        "The minimum size of a partition that is kept; -1 sets no limit.",
        ANY_VALUE,
        "log.retention.bytes",
    ),
    _create_key(
        "delete.retention.ms",
        LONG,
        _LOG.delete_retention_ms,
        "The time that compaction keeps a tombstone, in milliseconds.",
        at_least(0),
        "log.cleaner.delete.retention.ms",
    ),
    _create_key(
        "min.compaction.lag.ms",
        LONG,
        _LOG.min_compaction_lag_ms,
        "The minimum age of a record for compaction, in milliseconds.",
        at_least(0),
        "log.cleaner.min.compaction.lag.ms",
    ),
    _create_key(
        "max.compaction.lag.ms",
        LONG,
        _LOG.max_compaction_lag_ms,
        "The maximum age of a record before compaction, in milliseconds.",
        at_least(1),
        "log.cleaner.max.compaction.lag.ms",
    ),
    _create_key(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        _LOG.min_cleanable_dirty_ratio,
        "The share of a log that may be uncompacted before compaction starts.",
        between(0, 1),
        "log.cleaner.min.cleanable.ratio",
    ),
    _create_key(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "The time that a removed segment stays on the disk, in milliseconds." + NO_EFFECT,
        at_least(0),
        "log.segment.delete.delay.ms",
    ),
)

_SEGMENTS: Final = (
    _create_key(
        "segment.bytes",
        INT,
        _LOG.segment_bytes,
        "The size at which a segment is closed and a new one begins.",
        at_least(SEGMENT_BYTES_MIN),
        "log.segment.bytes",
    ),
    _create_key(
        "segment.ms",
        LONG,
        _LOG.segment_ms,
        "The age at which a small segment is closed, in the unit of the name.",
        at_least(1),
        BrokerSynonym("log.roll.ms", has_default=False),
        BrokerSynonym("log.roll.hours", HOUR_MS),
    ),
    _create_key(
        "segment.jitter.ms",
        LONG,
        0,
        "A random reduction of segment.ms." + NO_EFFECT,
        at_least(0),
        BrokerSynonym("log.roll.jitter.ms", has_default=False),
        BrokerSynonym("log.roll.jitter.hours", HOUR_MS),
    ),
    _create_key(
        "segment.index.bytes",
        INT,
        _LOG.segment_index_bytes,
        "The size of the index at which a segment is closed.",
        at_least(4),
        "log.index.size.max.bytes",
    ),
    _create_key(
        "index.interval.bytes",
        INT,
        _LOG.index_interval_bytes,
        "The number of bytes of records between two entries of the index.",
        at_least(0),
        "log.index.interval.bytes",
    ),
    _create_key(
        "preallocate",
        BOOLEAN,
        "false",
        "Whether the file of a new segment is allocated at its full size." + NO_EFFECT,
        ANY_VALUE,
        "log.preallocate",
    ),
    _create_key(
        "flush.messages",
        LONG,
        MAX_LONG,
        "The number of records after which the log is synced; log.flush of the broker applies instead."
        + NO_EFFECT,
        at_least(1),
        "log.flush.interval.messages",
    ),
    _create_key(
        "flush.ms",
        LONG,
        MAX_LONG,
        "The milliseconds after which the log is synced; log.flush of the broker applies instead."
        + NO_EFFECT,
        at_least(0),
        BrokerSynonym("log.flush.interval.ms", has_default=False),
    ),
)

_RECORDS: Final = (
    _create_key(
        "max.message.bytes",
        INT,
        1024 * 1024 + 12,
        "The maximum size of a record batch in a request.",
        at_least(0),
        "message.max.bytes",
    ),
    _create_key(
        "max.decompressed.message.bytes",
        INT,
        MAX_ARRAY,
        "The maximum uncompressed size of the records of a batch.",
        between(1, MAX_ARRAY),
        "max.decompressed.message.bytes",
    ),
    _create_key(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "The timestamp of a record: that of its producer (CreateTime) or of its arrival (LogAppendTime).",
        one_of("CreateTime", LOG_APPEND_TIME),
        "log.message.timestamp.type",
    ),
    _create_key(
        "message.timestamp.before.max.ms",
        LONG,
        MAX_LONG,
        "The maximum age of a record's timestamp at its arrival, in milliseconds.",
        at_least(0),
        "log.message.timestamp.before.max.ms",
    ),
    _create_key(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "The maximum distance of a record's timestamp into the future, in milliseconds.",
        at_least(0),
        "log.message.timestamp.after.max.ms",
    ),
    _create_key(
        "compression.type",
        STRING,
        "producer",
        "The codec of stored batches. groupd stores batches as the producer compressed them." + NO_EFFECT,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "compression.type",
    ),
    _create_key(
        "compression.gzip.level",
        INT,
        -1,
        "Level for the codec gzip." + NO_EFFECT,
        NumberRange(1, 9, others=(-1,)),
        "compression.gzip.level",
    ),
    _create_key(
        "compression.lz4.level",
        INT,
        9,
        "Level for the codec lz4." + NO_EFFECT,
        between(1, 17),
        "compression.lz4.level",
    ),
    _create_key(
        "compression.zstd.level",
        INT,
        3,
        "Level for the codec zstd." + NO_EFFECT,
        between(-131072, 22),
        "compression.zstd.level",
    ),
)

_REPLICATION: Final = (
    _create_key(
        "min.insync.replicas",
        INT,
        1,
        "The number of replicas that must have a record before the response to acks=all; there is one "
        "replica.",
        at_least(1),
        "min.insync.replicas",
    ),
    _create_key(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "Whether a lagging replica may become leader." + NO_EFFECT,
        ANY_VALUE,
        "unclean.leader.election.enable",
    ),
    _create_key(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        "Replicas with throttled replication on the leader." + NO_EFFECT,
        _REPLICAS,
    ),
    _create_key(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        "Replicas with throttled replication on the follower." + NO_EFFECT,
        _REPLICAS,
    ),
)

_UNSUPPORTED: Final = (
    _create_key("remote.storage.enable", BOOLEAN, "false", "Tiered storage, which groupd does not support."),
    _create_key("remote.log.copy.disable", BOOLEAN, "false", "Stops copying to tiered storage." + NO_EFFECT),
    _create_key(
        "remote.log.delete.on.disable", BOOLEAN, "false", "Removes tiered data when disabled." + NO_EFFECT
    ),
    _create_key(
        "remote.copy.lag.ms",
        LONG,
        0,
        "The age at which a segment is copied to tiered storage." + NO_EFFECT,
        at_least(-1),
        "log.remote.copy.lag.ms",
    ),
    _create_key(
        "remote.copy.lag.bytes",
        LONG,
        -1,
        "The distance from the end of the log at which a segment is copied to tiered storage." + NO_EFFECT,
        at_least(-1),
        "log.remote.copy.lag.bytes",
    ),
    _create_key(
        "local.retention.ms",
        LONG,
        -2,
        "The time that tiered segments are also kept locally." + NO_EFFECT,
        at_least(-2),
        "log.local.retention.ms",
    ),
    _create_key(
        "local.retention.bytes",
        LONG,
        -2,
        "The size of tiered segments that are also kept locally." + NO_EFFECT,
        at_least(-2),
        "log.local.retention.bytes",
    ),
    _create_key(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        "false",
        "Allows share groups to use the topic as a dead-letter queue." + NO_EFFECT,
    ),
)

INTERNAL_SEGMENT_BYTES: Final = _create_key(
    "internal.segment.bytes",
    INT,
    "",
    "The size of a segment below the minimum of segment.bytes, for tests.",
    at_least(1),
)
"""A topic property that requests may set and that no response lists, as in Kafka."""

TOPIC_CONFIG_KEYS: Final = {
    key.name: key
    for key in sorted(
        _RETENTION + _SEGMENTS + _RECORDS + _REPLICATION + _UNSUPPORTED, key=lambda key: key.name
    )
}
