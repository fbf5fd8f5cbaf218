import pytest

from coordinator.config.config_def import ConfigSource, InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.topic_configs import TopicDefaults

HOUR_MS = 60 * 60 * 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nope", "1"),
        ("message.format.version", "2.0"),
        ("retention.ms", "x"),
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("retention.ms", "-2"),
        ("retention.ms", str(2**63)),
        ("segment.bytes", str(2**31)),
        ("segment.bytes", "1048575"),
        ("segment.ms", "0"),
        ("max.message.bytes", "-1"),
        ("cleanup.policy", "foo"),
        ("cleanup.policy", "Compact"),
        ("cleanup.policy", "compact,foo"),
        ("compression.type", "lzo"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("preallocate", "maybe"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "x"),
        ("leader.replication.throttled.replicas", "x"),
        ("message.timestamp.type", "createtime"),
        ("min.insync.replicas", "0"),
        ("remote.storage.enable", "true"),
    ],
)
def test_values_that_kafka_refuses(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig):
        TopicDefaults({}).validate({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", " 7 "),
        ("retention.ms", "+5"),
        ("retention.ms", "\u0661"),
        ("retention.bytes", "-2"),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("preallocate", "TRUE"),
        ("min.cleanable.dirty.ratio", ".25"),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:1"),
        ("message.timestamp.type", "LogAppendTime"),
        ("remote.storage.enable", "false"),
        ("internal.segment.bytes", "1"),
    ],
)
def test_values_that_kafka_accepts(name: str, value: str) -> None:
    defaults = TopicDefaults({})
    defaults.validate({name: value})
    defaults.parse({name: value})


def test_compaction_lags_must_not_contradict_each_other() -> None:
    with pytest.raises(InvalidConfig):
        TopicDefaults({}).validate({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_every_default_is_a_valid_value() -> None:
    defaults = TopicDefaults({})
    for key in TOPIC_CONFIG_KEYS.values():
        key.parse(defaults.find_effective(key, {}).value)


def test_what_acts_is_parsed() -> None:
    values = TopicDefaults({}).parse(
        {
            "retention.ms": "5",
            "retention.bytes": "6",
            "segment.bytes": "1048576",
            "max.message.bytes": "7",
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "8",
        }
    )
    assert (values.log.retention_ms, values.log.retention_bytes, values.log.segment_bytes) == (5, 6, 1048576)
    assert (values.max_message_bytes, values.message_timestamp_before_max_ms) == (7, 8)
    assert values.log.compacts
    assert values.log.deletes
    assert values.is_log_append_time
    assert values.log.deletes


@pytest.mark.parametrize(
    ("broker", "expected_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-7"}, -1),
        ({"log.retention.ms": "-2"}, -1),
    ],
)
def test_broker_properties_are_the_defaults_of_topics(broker: dict[str, str], expected_ms: int) -> None:
    assert TopicDefaults(broker).parse({}).log.retention_ms == expected_ms


def test_an_override_comes_before_the_broker_and_the_broker_before_kafka() -> None:
    defaults = TopicDefaults({"log.index.interval.bytes": "100"})
    key = TOPIC_CONFIG_KEYS["index.interval.bytes"]
    own = defaults.find_effective(key, {"index.interval.bytes": "50"})
    assert own.value == "50"
    assert own.source == ConfigSource.TOPIC_CONFIG
    assert own.synonyms == (
        ("index.interval.bytes", "50", ConfigSource.TOPIC_CONFIG),
        ("log.index.interval.bytes", "100", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.index.interval.bytes", "4096", ConfigSource.DEFAULT_CONFIG),
    )
    brokers = defaults.find_effective(key, {})
    assert (brokers.value, brokers.described_source) == ("100", ConfigSource.STATIC_BROKER_CONFIG)
    kafka_configs = TopicDefaults({}).find_effective(key, {})
    assert (kafka_configs.value, kafka_configs.source) == ("4096", ConfigSource.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({}, []),
        ({"log.retention.hours": "24"}, []),
        ({"log.retention.minutes": "30"}, []),
        ({"log.retention.ms": "7"}, [("log.retention.ms", "7", 4), ("log.retention.hours", "168", 5)]),
        (
            {"log.retention.ms": "7", "log.retention.hours": "24"},
            [
                ("log.retention.ms", "7", 4),
                ("log.retention.hours", "24", 4),
                ("log.retention.hours", "168", 5),
            ],
        ),
    ],
)
def test_synonyms_begin_with_the_name_of_the_finest_unit(
    broker: dict[str, str], expected: list[tuple[str, str, int]]
) -> None:
    """Seen with Apache Kafka 4.4.0."""
    found = TopicDefaults(broker).find_effective(TOPIC_CONFIG_KEYS["retention.ms"], {})
    assert list(found.synonyms) == expected
    assert found.described_source == (4 if expected else 5)
    assert found.source == (4 if broker else 5)


def test_a_broker_property_that_no_topic_could_have_stops_the_start() -> None:
    for broker in ({"log.segment.bytes": "12"}, {"log.retention.ms": "0"}, {"log.retention.hours": "0"}):
        with pytest.raises(InvalidConfig):
            TopicDefaults(broker)
