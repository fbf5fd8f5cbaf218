"""Configs of topics and brokers: described, altered."""

from collections.abc import Sequence

from protocol.messages import alter_configs as replacing
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.oracle.play import Play, Topic
from tests.oracle.session import session

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def describe(*resources: tuple[int, str, list[str] | None], synonyms: bool = False) -> DescribeConfigsRequest:
    """Asks for configs: type, name, and which (None: all)."""
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
    )


def alter(
    *changes: Change, name: str, kind: int = TOPIC, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Changes of one resource."""
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replace(
    *configs: tuple[str, str | None], name: str, kind: int = TOPIC, validate_only: bool = False
) -> replacing.AlterConfigsRequest:
    """Set all configs of one resource, by the older call."""
    resource = replacing.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[replacing.AlterableConfig(name=key, value=value) for key, value in configs],
    )
    return replacing.AlterConfigsRequest(resources=[resource], validate_only=validate_only)


@session(version=range(5))
def configs_are_described(play: Play, version: int) -> None:
    orders = play.topic(retention_ms="1234", cleanup_policy="compact")
    some = ["retention.ms", "no.such.config", "cleanup.policy", "segment.bytes"]
    for note, resource in (
        ("some", (TOPIC, orders.name, some)),
        ("of an unknown topic", (TOPIC, play.name("unknown"), None)),
        ("of a strange topic", (TOPIC, "not a name!", None)),
        ("of a topic without a name", (TOPIC, "", None)),
        ("of an unknown broker", (BROKER, "77", ["x"])),
        ("of a strange broker", (BROKER, "abc", ["x"])),
        ("of a strange kind", (99, "abc", ["x"])),
        ("of the broker", (BROKER, "1", ["group.max.session.timeout.ms", "no.such.config"])),
        ("of every broker", (BROKER, "", ["group.max.size"])),
    ):
        play.ask(describe(resource), version, note=note)
    if version >= 1:
        play.ask(describe((TOPIC, orders.name, some), synonyms=True), version, note="with synonyms")
        # Which configs there are depends on the broker: version 0 is answered by an old one only.
        play.ask(describe((TOPIC, orders.name, [])), version, note="none")
    twice = [(TOPIC, orders.name, ["retention.ms"]), (TOPIC, orders.name, ["cleanup.policy"])]
    play.ask(describe(*twice), version, note="a topic twice")
    play.ask(describe(), version, note="of nothing")


@session(version=(1, 4))
def all_configs_of_a_topic(play: Play, version: int) -> None:
    orders = play.topic()
    play.ask(describe((TOPIC, orders.name, None), synonyms=True), version)


CHANGES: dict[str, Sequence[Change]] = {
    "a value is set": [("retention.ms", SET, "999")],
    "a bad value": [("retention.ms", SET, "x")],
    "no value": [("retention.ms", SET, None)],
    "an unknown config": [("no.such.config", SET, "1")],
    "something is added to a number": [("retention.ms", APPEND, "1")],
    "something is added to a list": [("cleanup.policy", APPEND, "delete")],
    "the same again": [("cleanup.policy", APPEND, "delete")],
    "something is taken from a list": [("cleanup.policy", SUBTRACT, "compact")],
    "what is not there is taken": [("cleanup.policy", SUBTRACT, "compact")],
    "something strange is added": [("cleanup.policy", APPEND, "strange")],
    "nothing is taken": [("cleanup.policy", SUBTRACT, None)],
    "one config twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
    "a value is removed": [("retention.ms", DELETE, None)],
    "a value that is not there is removed": [("retention.ms", DELETE, None)],
    "an unknown config is removed": [("no.such.config", DELETE, None)],
    "a good and a bad one": [("retention.ms", SET, "777"), ("no.such.config", SET, "1")],
    "nothing": [],
    "too few replicas": [("min.insync.replicas", SET, "0")],
    "a segment that is too small": [("segment.bytes", SET, "1")],
}


@session(version=(0, 1))
def configs_are_altered(play: Play, version: int) -> None:
    orders = play.topic(cleanup_policy="compact")
    for note, changes in CHANGES.items():
        play.ask(alter(*changes, name=orders.name, validate_only=True), version, note=note + ", validated")
        play.ask(alter(*changes, name=orders.name), version, note=note)
    look(play, orders)


@session(version=(0, 1))
def configs_that_cannot_be_altered(play: Play, version: int) -> None:
    orders = play.topic()
    change = ("retention.ms", SET, "1")
    for note, name, kind in (
        ("of an unknown topic", play.name("unknown"), TOPIC),
        ("of a strange topic", "not a name!", TOPIC),
        ("of a topic without a name", "", TOPIC),
        ("of a strange kind", "x", 99),
        ("of an unknown broker", "77", BROKER),
        ("of a strange broker", "abc", BROKER),
    ):
        play.ask(alter(change, name=name, kind=kind), version, note=note)
    request = alter(change, name=orders.name)
    request.resources += alter(("retention.ms", SET, "2"), name=orders.name).resources
    play.ask(request, version, note="a topic twice")
    look(play, orders)


@session(version=range(1, 5))
def what_no_one_configures(play: Play, version: int) -> None:
    for note, resource in (
        ("of a group", (GROUP, play.group, ["x"])),
        ("of a group without a name", (GROUP, "", ["x"])),
        ("of client metrics", (CLIENT_METRICS, "x", ["x"])),
        ("of client metrics without a name", (CLIENT_METRICS, "", ["x"])),
        ("of the loggers of a broker", (BROKER_LOGGER, "1", ["x"])),
        ("of the loggers of an unknown broker", (BROKER_LOGGER, "77", ["x"])),
        ("of the loggers of a strange broker", (BROKER_LOGGER, "abc", ["x"])),
        ("of the loggers of no broker", (BROKER_LOGGER, "", ["x"])),
    ):
        play.ask(describe(resource), version, note=note)


@session(version=range(2))
def what_has_configs(play: Play, version: int) -> None:
    play.topic()
    play.topic("empty")
    play.ask(ListConfigResourcesRequest(), version, note="all", own=True)
    if version == 0:
        return
    play.ask(ListConfigResourcesRequest(resource_types=[TOPIC]), version, note="topics", own=True)
    for note, kinds in {
        "brokers": [BROKER],
        "brokers twice": [BROKER, BROKER],
        "what a broker logs": [BROKER_LOGGER],
        "groups": [GROUP],
        "client metrics": [CLIENT_METRICS],
        "brokers and groups": [BROKER, GROUP],
        "a strange kind": [99],
        "no kind": [0],
        "a strange kind and brokers": [99, BROKER],
    }.items():
        play.ask(ListConfigResourcesRequest(resource_types=kinds), version, note=note)


REPLACEMENTS: dict[str, Sequence[tuple[str, str | None]]] = {
    "one of two": [("retention.ms", "999")],
    "a bad value": [("retention.ms", "x")],
    "no value": [("retention.ms", None)],
    "an unknown config": [("no.such.config", "1")],
    "one config twice": [("retention.ms", "1"), ("retention.ms", "2")],
    "a good and a bad one": [("retention.ms", "777"), ("no.such.config", "1")],
    "two": [("cleanup.policy", "compact,delete"), ("retention.ms", "888")],
}


@session(version=range(3))
def configs_are_replaced(play: Play, version: int) -> None:
    orders = play.topic(cleanup_policy="compact", segment_ms="5000")
    for note, configs in REPLACEMENTS.items():
        request = replace(*configs, name=orders.name, validate_only=True)
        play.ask(request, version, note=note + ", validated")
        play.ask(replace(*configs, name=orders.name), version, note=note)
    look(play, orders)
    play.ask(replace(name=orders.name), version, note="nothing")
    look(play, orders)


@session(version=range(3))
def configs_that_cannot_be_replaced(play: Play, version: int) -> None:
    orders = play.topic()
    config = ("retention.ms", "1")
    for note, name, kind in (
        ("of an unknown topic", play.name("unknown"), TOPIC),
        ("of a strange topic", "not a name!", TOPIC),
        ("of a topic without a name", "", TOPIC),
        ("of a strange kind", "x", 99),
        ("of an unknown broker", "77", BROKER),
        ("of a strange broker", "abc", BROKER),
    ):
        play.ask(replace(config, name=name, kind=kind), version, note=note)
    request = replace(config, name=orders.name)
    request.resources += replace(("retention.ms", "2"), name=orders.name).resources
    play.ask(request, version, note="a topic twice")
    look(play, orders)


def look(play: Play, topic: Topic) -> None:
    """Record two configs after the broker has the latest change of a third."""
    mark = alter(("file.delete.delay.ms", SET, "12345"), name=topic.name)
    seen = describe((TOPIC, topic.name, ["file.delete.delay.ms"]))
    with play.quietly():
        play.ask(mark, 1, "admin")
        play.until(lambda: play.ask(seen, 4, "admin").results[0].configs[0].value == "12345")
    play.ask(describe((TOPIC, topic.name, ["retention.ms", "cleanup.policy"]), synonyms=True), 4)
