"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

import pytest

from coordinator.config.config_def import ConfigKey, ConfigType
from coordinator.topics.data_plane_answer import ConfigChanged
from coordinator.topics.data_plane_config import MAX_CONFIGS, BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages import alter_configs as replacing
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.topics.broker import Broker, batch
from tests.topics.versions import all_of

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(
    broker: Broker,
    name: str = "orders",
    keys: list[str] | None = None,
    *,
    kind: int = TOPIC,
    version: int | None = None,
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=True,
        include_documentation=True,
    )
    return broker.ask(request, DescribeConfigsResponse, version).results[0]


def alter(
    broker: Broker,
    *changes: tuple[str, int, str | None],
    name: str = "orders",
    kind: int = TOPIC,
    validate_only: bool = False,
    version: int | None = None,
) -> int:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return broker.ask(request, IncrementalAlterConfigsResponse, version).responses[0].error_code


def replace(
    broker: Broker,
    *configs: tuple[str, str | None],
    name: str = "orders",
    kind: int = TOPIC,
    validate_only: bool = False,
    version: int | None = None,
) -> int:
    """Set these configs of one resource by the older call; return its error code."""
    resource = replacing.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[replacing.AlterableConfig(name=key, value=value) for key, value in configs],
    )
    request = replacing.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return broker.ask(request, replacing.AlterConfigsResponse, version).responses[0].error_code


def value(broker: Broker, key: str) -> tuple[str | None, int]:
    (entry,) = describe(broker, keys=[key]).configs
    return entry.value, entry.config_source


# Describing


@pytest.mark.parametrize("version", all_of(DescribeConfigsRequest))
def test_every_version_describes(broker: Broker, version: int) -> None:
    broker.create("orders", retention_ms="1000")
    result = describe(broker, version=version)
    assert result.error_code == ErrorCode.NONE
    entries = {entry.name: entry for entry in result.configs}
    assert len(entries) == 37
    assert entries["retention.ms"].value == "1000"
    assert not any(entry.read_only or entry.is_sensitive for entry in entries.values())
    if version == 0:
        assert not entries["retention.ms"].is_default
        assert entries["segment.bytes"].is_default
    else:
        assert entries["retention.ms"].config_source == 1
        synonyms = [(s.name, s.value, s.source) for s in entries["segment.bytes"].synonyms]
        assert synonyms == [("log.segment.bytes", "1073741824", 5)]
    if version >= 3:
        assert entries["cleanup.policy"].config_type == ConfigType.LIST
        assert all(entry.documentation for entry in entries.values())


def test_only_the_keys_asked_for(broker: Broker) -> None:
    broker.create("orders")
    assert [e.name for e in describe(broker, keys=["retention.ms", "nope"]).configs] == ["retention.ms"]
    assert len(describe(broker, keys=[]).configs) == 37


def test_what_cannot_be_described(broker: Broker) -> None:
    assert describe(broker, "gone").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(broker, "no/pe").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(broker, "").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(broker, "7", kind=BROKER).error_code == ErrorCode.INVALID_REQUEST
    assert describe(broker, "x", kind=BROKER).error_code == ErrorCode.INVALID_REQUEST
    assert describe(broker, "9" * 5000, kind=BROKER).error_code == ErrorCode.INVALID_REQUEST
    assert describe(broker, "x", kind=99).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "wrong_names"),
    [(BROKER_LOGGER, "1", ["x", "7", ""]), (CLIENT_METRICS, "x", [""])],
)
def test_loggers_and_client_metrics_have_no_configs(
    broker: Broker, kind: int, name: str, wrong_names: list[str]
) -> None:
    described = describe(broker, name, kind=kind)
    assert (described.error_code, described.configs) == (ErrorCode.NONE, [])
    for wrong in wrong_names:
        assert describe(broker, wrong, kind=kind).error_code == ErrorCode.INVALID_REQUEST


def test_the_brokers_own_properties(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", explicit={"num.partitions": "3"})
    broker.plane.broker_configs = [
        BrokerConfig(ConfigKey("num.partitions", ConfigType.INT, "1", "How many."), "3"),
        BrokerConfig(ConfigKey("ssl.key.password", ConfigType.PASSWORD, "", "Hidden."), "secret"),
    ]
    entries = {entry.name: entry for entry in describe(broker, "1", kind=BROKER).configs}
    partitions = entries["num.partitions"]
    assert (partitions.value, partitions.config_source, partitions.read_only) == ("3", 4, True)
    assert [(s.value, s.source) for s in partitions.synonyms] == [("3", 4), ("1", 5)]
    assert entries["ssl.key.password"].value is None
    assert entries["ssl.key.password"].is_sensitive
    assert describe(broker, "", kind=BROKER).configs == []
    broker.stop()


@pytest.mark.parametrize("replicas", [None, "2"])
def test_min_insync_replicas_is_set_for_all_brokers(replicas: str | None, tmp_path: object) -> None:
    """The controller of a new cluster of Kafka writes the value of its properties (KIP-966)."""
    static = {} if replicas is None else {"min.insync.replicas": replicas}
    broker = Broker(f"{tmp_path}/data", explicit=static)
    broker.plane.broker_configs = [
        BrokerConfig(ConfigKey("min.insync.replicas", ConfigType.INT, "1", "How many."), replicas),
        BrokerConfig(ConfigKey("num.partitions", ConfigType.INT, "1", "How many."), "3"),
    ]
    broker.create("orders")
    broker.create("payments", min_insync_replicas="3")
    dynamic, default = (replicas or "1", 3), ("1", 5)
    synonyms = [dynamic, *([(replicas, 4)] if replicas else []), default]
    for name, kind, expected in (
        ("orders", TOPIC, synonyms),
        ("payments", TOPIC, [("3", 1), *synonyms]),
        ("1", BROKER, synonyms),
        ("", BROKER, [dynamic]),
    ):
        (entry,) = describe(broker, name, ["min.insync.replicas"], kind=kind).configs
        assert [(each.value, each.source) for each in entry.synonyms] == expected
        assert (entry.value, entry.config_source) == expected[0]
    assert [entry.name for entry in describe(broker, "", kind=BROKER).configs] == ["min.insync.replicas"]
    change = ("min.insync.replicas", SET, "4")
    assert alter(broker, change, name="", kind=BROKER) == ErrorCode.INVALID_REQUEST
    broker.stop()


def test_a_topics_default_comes_from_the_broker(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", explicit={"log.retention.hours": "2"})
    made = broker.create_result("orders", 1)
    (retention,) = [config for config in made.configs if config.name == "retention.ms"]
    assert (retention.value, retention.config_source) == ("7200000", 4)
    # Seen with Apache Kafka 4.4.0: DescribeConfigs looks for log.retention.ms.
    assert value(broker, "retention.ms") == ("7200000", 5)
    broker.stop()


# Altering


@pytest.mark.parametrize("version", all_of(IncrementalAlterConfigsRequest))
def test_every_version_alters(broker: Broker, version: int) -> None:
    broker.create("orders")
    assert alter(broker, ("retention.ms", SET, "5"), version=version) == ErrorCode.NONE
    assert broker.answer.changes == [ConfigChanged("orders", (("retention.ms", "5"),))]
    assert value(broker, "retention.ms") == ("5", 1)
    broker.restart()
    assert value(broker, "retention.ms") == ("5", 1)
    assert alter(broker, ("retention.ms", DELETE, None), version=version) == ErrorCode.NONE
    assert value(broker, "retention.ms")[1] == 5


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("retention.ms", " +07000\t", "7000"),
        ("retention.ms", "\u0661", "1"),
        ("preallocate", " TRUE ", "true"),
        ("cleanup.policy", " compact , delete ", "compact,delete"),
        ("compression.type", " gzip ", "gzip"),
        ("message.timestamp.type", "CreateTime ", "CreateTime"),
        ("min.cleanable.dirty.ratio", " .25 ", "0.25"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", "1e-4", "1.0E-4"),
        ("min.cleanable.dirty.ratio", "0.000125", "1.25E-4"),
    ],
)
def test_a_value_is_described_without_what_was_around_it(
    broker: Broker, name: str, given: str, shown: str
) -> None:
    made = broker.create_result("orders", 1, **{name.replace(".", "_"): given})
    assert {config.name: config.value for config in made.configs}[name] == given
    (entry,) = describe(broker, keys=[name]).configs
    assert (entry.value, entry.synonyms[0].value) == (shown, shown)


def test_lists_grow_and_shrink(broker: Broker) -> None:
    broker.create("orders")
    alter(broker, ("cleanup.policy", APPEND, "compact"))
    assert value(broker, "cleanup.policy") == ("delete,compact", 1)
    alter(broker, ("cleanup.policy", APPEND, "compact"))
    assert value(broker, "cleanup.policy") == ("delete,compact", 1)
    alter(broker, ("cleanup.policy", SUBTRACT, "delete"))
    assert value(broker, "cleanup.policy") == ("compact", 1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "5"), ErrorCode.INVALID_CONFIG),
        (("nope", SET, "5"), ErrorCode.INVALID_CONFIG),
        (("nope", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "foo"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "5"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals_change_nothing(broker: Broker, change: tuple[str, int, str | None], code: int) -> None:
    broker.create("orders", retention_ms="1000")
    assert alter(broker, ("segment.ms", SET, "99"), change) == code
    assert value(broker, "retention.ms") == ("1000", 1)
    assert value(broker, "segment.ms")[1] == 5


def test_more_configs_than_anybody_has_are_refused(broker: Broker) -> None:
    broker.create("orders")
    many = {f"none.{number}": "1" for number in range(MAX_CONFIGS)} | {"retention.ms": "5"}
    refused = ErrorCode.INVALID_REQUEST
    assert alter(broker, *((name, SET, text) for name, text in many.items())) == refused
    assert replace(broker, *many.items()) == refused
    assert broker.create_result("others", 1, **many).error_code == refused
    assert value(broker, "retention.ms")[1] == 5
    del many["retention.ms"]
    assert alter(broker, *((name, SET, text) for name, text in many.items())) == ErrorCode.INVALID_CONFIG


def test_refusals_of_whole_resources(broker: Broker) -> None:
    change = ("retention.ms", SET, "5")
    assert alter(broker, change, name="gone") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(broker, change, name="no/pe") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert alter(broker, change, name="") == ErrorCode.INVALID_REQUEST
    assert alter(broker, change, name="1", kind=BROKER) == ErrorCode.INVALID_REQUEST
    assert alter(broker, change, name="7", kind=BROKER) == ErrorCode.INVALID_REQUEST
    assert alter(broker, change, name="1", kind=3) == ErrorCode.INVALID_REQUEST
    broker.create("orders")
    assert alter(broker, change, ("retention.ms", DELETE, None)) == ErrorCode.INVALID_REQUEST


def test_the_same_resource_twice(broker: Broker) -> None:
    broker.create("orders")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=[])
    request = IncrementalAlterConfigsRequest(resources=[resource, resource], validate_only=False)
    response = broker.ask(request, IncrementalAlterConfigsResponse)
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_validate_only_changes_nothing(broker: Broker) -> None:
    broker.create("orders")
    assert alter(broker, ("retention.ms", SET, "5"), validate_only=True) == ErrorCode.NONE
    assert alter(broker, ("retention.ms", SET, "x"), validate_only=True) == ErrorCode.INVALID_CONFIG
    assert value(broker, "retention.ms")[1] == 5


def test_a_change_acts_at_once(broker: Broker) -> None:
    broker.create("orders")
    assert broker.produce("orders", batch(values=[b"v" * 100])).error_code == ErrorCode.NONE
    alter(broker, ("max.message.bytes", SET, "100"))
    assert broker.produce("orders", batch(values=[b"v" * 100])).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("version", all_of(replacing.AlterConfigsRequest))
def test_the_older_call_leaves_nothing_that_it_was_not_sent(broker: Broker, version: int) -> None:
    broker.create("orders", retention_ms="1000", cleanup_policy="compact")
    assert replace(broker, ("retention.ms", "5"), ("segment.ms", "99"), version=version) == ErrorCode.NONE
    assert broker.answer.changes == [ConfigChanged("orders", (("retention.ms", "5"), ("segment.ms", "99")))]
    broker.restart()
    assert value(broker, "retention.ms") == ("5", 1)
    assert value(broker, "segment.ms") == ("99", 1)
    assert value(broker, "cleanup.policy") == ("delete", 5)
    assert replace(broker, version=version) == ErrorCode.NONE
    assert value(broker, "retention.ms")[1] == 5


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ([("nope", "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", "1"), ("retention.ms", "2")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals_of_the_older_call_change_nothing(
    broker: Broker, configs: list[tuple[str, str | None]], code: int
) -> None:
    broker.create("orders", retention_ms="1000")
    assert replace(broker, ("segment.ms", "99"), *configs) == code
    assert replace(broker, ("segment.ms", "99"), validate_only=True) == ErrorCode.NONE
    assert value(broker, "retention.ms") == ("1000", 1)
    assert value(broker, "segment.ms")[1] == 5


def test_the_older_call_refuses_other_resources(broker: Broker) -> None:
    config = ("retention.ms", "5")
    assert replace(broker, config, name="gone") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replace(broker, config, name="1", kind=BROKER) == ErrorCode.INVALID_REQUEST


def test_the_older_call_refuses_a_resource_twice(broker: Broker) -> None:
    broker.create("orders")
    resource = replacing.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=[])
    request = replacing.AlterConfigsRequest(resources=[resource, resource], validate_only=False)
    response = broker.ask(request, replacing.AlterConfigsResponse)
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
