"""DescribeConfigs, for topics and for this broker. Source: KIP-133, KIP-226, KIP-569, Kafka's
`ConfigHelper`.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from coordinator.config.config_key import ConfigKey, ConfigSource
from coordinator.config.group_configs import GROUP_CONFIG_KEYS, broker_synonym
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.unserved_group_configs import SHOWN_WHEN_SET
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.refusal import Refusal
from coordinator.topics.topic_name import why_illegal
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_MAX_DIGITS: Final = 10  # of an int32; Python refuses to read some thousands

Synonyms = Sequence[tuple[str, str | None, ConfigSource]]
Described = dict[object, list[DescribeConfigsResourceResult]]
"""What is alike of all that one request names, by what tells it apart: a topic's overrides, the keys asked for."""


class ResourceType(IntEnum):
    """Kafka's numbers for what can be configured."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def answer_describe_configs(
    plane: DataPlane, request: DescribeConfigsRequest, context: Context, now: Now
) -> Steps:
    """Each resource is described or refused on its own, in a step of its own."""
    catalogue = plane.catalogue
    described: Described = {}
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            if resource.resource_type == ResourceType.TOPIC:
                result.configs = _topic(catalogue, resource, request, described)
            elif resource.resource_type == ResourceType.BROKER:
                result.configs = _broker(
                    plane.broker_configs, resource, request, context.node.node_id, described
                )
            elif resource.resource_type == ResourceType.GROUP and resource.resource_name:
                result.configs = _group(plane, resource, request, described)
            else:
                _check_without_configs(resource, context.node.node_id)
        except Refusal as error:
            result.error_code, result.error_message = error.code, error.message or ""
        results.append(result)
        yield None
    return Answer(DescribeConfigsResponse(results=results))


def _keys(resource: DescribeConfigsResource) -> frozenset[str]:
    """The keys that are asked for; none stands for all."""
    return frozenset(resource.configuration_keys or ())


def _topic(
    catalogue: Catalogue,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    described: Described,
) -> list[DescribeConfigsResourceResult]:
    illegal = why_illegal(resource.resource_name)
    if illegal is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    topic = catalogue.get(resource.resource_name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    asked = _keys(resource)
    alike = (tuple(topic.overrides.items()), asked)
    known = described.get(alike)
    if known is not None:
        return known
    entries = described[alike] = []
    for key in TOPIC_CONFIG_KEYS.values():
        if asked and key.name not in asked:
            continue
        found = catalogue.defaults.effective(key, topic.overrides)
        entries.append(_entry(key, found.value, found.source, found.synonyms, request))
    return entries


def _broker(
    broker_configs: Iterable[BrokerConfig],
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    node_id: int,
    described: Described,
) -> list[DescribeConfigsResourceResult]:
    check_broker_name(resource.resource_name, node_id)
    if not resource.resource_name:
        return []  # the defaults that were set for all brokers while they ran: none can be
    asked = _keys(resource)
    alike = (ResourceType.BROKER, asked)
    known = described.get(alike)
    if known is not None:
        return known
    entries = described[alike] = []
    for broker_config in broker_configs:
        key = broker_config.key
        if asked and key.name not in asked:
            continue
        synonyms = broker_config.synonyms()
        source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
        entry = _entry(key, broker_config.value, source, synonyms, request)
        entry.read_only = True
        entry.is_sensitive = broker_config.is_sensitive
        entries.append(entry)
    return entries


def _group(
    plane: DataPlane,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    described: Described,
) -> list[DescribeConfigsResourceResult]:
    """What a group obeys, whether there is one of that id or not."""
    overrides = plane.catalogue.group_configs.of(resource.resource_name)
    asked = _keys(resource)
    alike = (ResourceType.GROUP, tuple(overrides.items()), asked)
    known = described.get(alike)
    if known is not None:
        return known
    of_broker = {config.key.name: config for config in plane.broker_configs}
    entries = described[alike] = []
    for key in GROUP_CONFIG_KEYS.values():
        if (asked and key.name not in asked) or (key.name in SHOWN_WHEN_SET and key.name not in overrides):
            continue
        synonyms: list[tuple[str, str | None, ConfigSource]] = []
        if key.name in overrides:
            own = key.canonical(overrides[key.name])
            synonyms.append((key.name, own, ConfigSource.GROUP_CONFIG))
        synonym = broker_synonym(key.name)
        default = of_broker.get(synonym)
        if default is None:
            synonyms.append((synonym, key.default, ConfigSource.DEFAULT_CONFIG))
        else:
            synonyms += default.synonyms()
        _, value, source = synonyms[0]
        entries.append(_entry(key, value, source, synonyms, request))
    return entries


def _check_without_configs(resource: DescribeConfigsResource, node_id: int) -> None:
    """Whether it is a resource of Kafka of which nothing can be configured here. Raises Refusal."""
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        raise Refusal(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"a resource of type {kind} needs a name")
    if kind == ResourceType.BROKER_LOGGER:
        check_broker_name(name, node_id)


def check_broker_name(name: str, node_id: int, *, is_altered: bool = False) -> None:
    """Whether a resource name means this broker, or "" for all brokers. Raises Refusal with Kafka's text, which is
    another one where configs are altered."""
    if not name:
        return
    digits = name.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        what = "Node" if is_altered else "Broker"
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")
    if int(name) != node_id:
        expected = node_id if is_altered else f"{node_id} or empty string"
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}"
        )


def _entry(
    key: ConfigKey,
    value: str | None,
    source: ConfigSource,
    synonyms: Synonyms,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=key.name,
        value=value,
        read_only=False,
        config_source=source,
        is_default=source == ConfigSource.DEFAULT_CONFIG,
        is_sensitive=False,
        synonyms=[
            DescribeConfigsSynonym(name=synonym, value=text, source=where)
            for synonym, text, where in synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=key.kind,
        documentation=key.documentation if request.include_documentation else None,
    )
