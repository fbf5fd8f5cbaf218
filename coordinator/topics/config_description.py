"""DescribeConfigs for topics and for this broker, and ListConfigResources.

Source: KIP-133, KIP-226, KIP-569, KIP-714, KIP-1142; Kafka's `ConfigHelper`,
`KafkaApis.handleListConfigResources`.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final

from coordinator.config.config_def import ConfigKey, ConfigSource
from coordinator.config.group_configs import GROUP_CONFIG_KEYS, find_broker_synonym
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.unsupported_group_configs import SHOWN_WHEN_SET
from coordinator.core.outcome import Context, Now
from coordinator.topics.api_error import ApiError
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer
from coordinator.topics.data_plane_config import BrokerConfig
from coordinator.topics.long_work import LongWork
from coordinator.topics.topic_name import find_name_error
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_MAX_DIGITS: Final = 10  # an int32; Python rejects conversions of some thousand digits

ONLY_CLIENT_METRICS: Final = 0
"""This version lists only client metrics resources."""

Synonyms = Sequence[tuple[str, str | None, ConfigSource]]
DescribedConfigs = dict[object, list[DescribeConfigsResourceResult]]
"""The descriptions that resources of one request share, by the values that determine them: a topic's overrides and
the requested keys.
"""


class ConfigResourceType(IntEnum):
    """Kafka's codes for resource types with configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


async def answer_describe_configs(
    plane: DataPlane, request: DescribeConfigsRequest, context: Context, work: LongWork
) -> Answer:
    """Describe or reject each resource independently."""
    catalogue = plane.catalogue
    described: DescribedConfigs = {}
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        requested = await _find_requested_keys(resource, work)
        try:
            if resource.resource_type == ConfigResourceType.TOPIC:
                result.configs = _describe_topic(catalogue, resource, requested, request, described)
            elif resource.resource_type == ConfigResourceType.BROKER:
                check_broker_name(resource.resource_name, context.node.node_id)
                result.configs = _describe_broker(
                    plane.broker_configs, resource, requested, request, described
                )
            elif resource.resource_type == ConfigResourceType.GROUP and resource.resource_name:
                result.configs = _describe_group(plane, resource, requested, request, described)
            else:
                _check_unconfigurable(resource, context.node.node_id)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message or ""
        results.append(result)
        await work.checkpoint()
    return Answer(DescribeConfigsResponse(results=results))


def _describe_topic(
    catalogue: Catalogue,
    resource: DescribeConfigsResource,
    requested: frozenset[str],
    request: DescribeConfigsRequest,
    described: DescribedConfigs,
) -> list[DescribeConfigsResourceResult]:
    illegal = find_name_error(resource.resource_name)
    if illegal is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    topic = catalogue.find_topic(resource.resource_name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cache_key = (tuple(topic.overrides.items()), requested)
    cached = described.get(cache_key)
    if cached is not None:
        return cached
    entries = described[cache_key] = []
    for key in TOPIC_CONFIG_KEYS.values():
        if requested and key.name not in requested:
            continue
        found = catalogue.defaults.find_effective(key, topic.overrides)
        entries.append(_build_entry(key, found.value, found.described_source, found.synonyms, request))
    return entries


def _describe_broker(
    broker_configs: Iterable[BrokerConfig],
    resource: DescribeConfigsResource,
    requested: frozenset[str],
    request: DescribeConfigsRequest,
    described: DescribedConfigs,
) -> list[DescribeConfigsResourceResult]:
    """Describe this broker, or, for an empty name, the settings for all brokers of the cluster."""
    is_one_broker = bool(resource.resource_name)
    cache_key = (ConfigResourceType.BROKER, is_one_broker, requested)
    cached = described.get(cache_key)
    if cached is not None:
        return cached
    entries = described[cache_key] = []
    for broker_config in broker_configs:
        key = broker_config.key
        if requested and key.name not in requested:
            continue
        synonyms = broker_config.synonyms() if is_one_broker else broker_config.dynamic_default
        if not is_one_broker and not synonyms:
            continue
        source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
        entry = _build_entry(key, broker_config.value, source, synonyms, request)
        entry.read_only = True
        entry.is_sensitive = broker_config.is_sensitive
        entries.append(entry)
    return entries


def _describe_group(
    plane: DataPlane,
    resource: DescribeConfigsResource,
    requested: frozenset[str],
    request: DescribeConfigsRequest,
    described: DescribedConfigs,
) -> list[DescribeConfigsResourceResult]:
    """Describe the effective configs of a group, existing or not."""
    overrides = plane.catalogue.group_configs.find_configs(resource.resource_name)
    cache_key = (ConfigResourceType.GROUP, tuple(overrides.items()), requested)
    cached = described.get(cache_key)
    if cached is not None:
        return cached
    of_broker = {config.key.name: config for config in plane.broker_configs}
    entries = described[cache_key] = []
    for key in GROUP_CONFIG_KEYS.values():
        if (requested and key.name not in requested) or (
            key.name in SHOWN_WHEN_SET and key.name not in overrides
        ):
            continue
        synonyms: list[tuple[str, str | None, ConfigSource]] = []
        if key.name in overrides:
            override = key.format_canonical(overrides[key.name])
            synonyms.append((key.name, override, ConfigSource.GROUP_CONFIG))
        synonym = find_broker_synonym(key.name)
        default = of_broker.get(synonym)
        if default is None:
            synonyms.append((synonym, key.default, ConfigSource.DEFAULT_CONFIG))
        else:
            synonyms += default.synonyms()
        _, value, source = synonyms[0]
        entries.append(_build_entry(key, value, source, synonyms, request))
    return entries


async def _find_requested_keys(resource: DescribeConfigsResource, work: LongWork) -> frozenset[str]:
    """Return the requested keys; an empty list requests all."""
    keys: set[str] = set()
    for key in resource.configuration_keys or ():
        keys.add(key)
        await work.checkpoint()
    return frozenset(keys)


def _check_unconfigurable(resource: DescribeConfigsResource, node_id: int) -> None:
    """Check for a resource that Kafka has but that has no configs here.

    Raises:
        ApiError: the resource has no configs.
    """
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (
        ConfigResourceType.BROKER_LOGGER,
        ConfigResourceType.CLIENT_METRICS,
        ConfigResourceType.GROUP,
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a resource of type {kind} needs a name")
    if kind == ConfigResourceType.BROKER_LOGGER:
        check_broker_name(name, node_id)


def check_broker_name(name: str, node_id: int, *, is_altered: bool = False) -> None:
    """Check that a resource name means this broker, or all brokers ("").

    Raises:
        ApiError: with Kafka's text, which differs when configs are altered.
    """
    if not name:
        return
    digits = name.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        subject = "Node" if is_altered else "Broker"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{subject} id must be an integer, but it is: {name}")
    if int(name) != node_id:
        expected = node_id if is_altered else f"{node_id} or empty string"
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}"
        )


def _build_entry(
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
            DescribeConfigsSynonym(name=synonym, value=text, source=synonym_source)
            for synonym, text, synonym_source in synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=key.kind,
        documentation=key.documentation if request.include_documentation else None,
    )


_RESOURCE_NAMES: Final[dict[int, Callable[[Catalogue, Context], Iterable[str]]]] = {
    ConfigResourceType.TOPIC: lambda catalogue, _: (topic.name for topic in catalogue.listed()),
    ConfigResourceType.BROKER: lambda _, context: (str(context.node.node_id),),
    ConfigResourceType.BROKER_LOGGER: lambda _, context: (str(context.node.node_id),),
    # Kafka lists these as well, but they have no configs here.
    ConfigResourceType.CLIENT_METRICS: lambda _catalogue, _context: (),
    ConfigResourceType.GROUP: lambda catalogue, _: sorted(catalogue.group_configs.by_group),
}


def answer_list_config_resources(
    plane: DataPlane, request: ListConfigResourcesRequest, context: Context, now: Now
) -> Answer:
    """List all resources of the requested types, each type once; of all types if the request names none."""
    requested = request.resource_types or list(_RESOURCE_NAMES)
    if context.api_version == ONLY_CLIENT_METRICS:
        requested = [ConfigResourceType.CLIENT_METRICS]
    if not _RESOURCE_NAMES.keys() >= set(requested):
        return Answer(build_error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION))
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in dict.fromkeys(requested)
        for name in _RESOURCE_NAMES[kind](plane.catalogue, context)
    ]
    return Answer(ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources))
