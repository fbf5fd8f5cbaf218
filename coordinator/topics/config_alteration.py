"""IncrementalAlterConfigs and AlterConfigs for topics, for groups, and for this broker.

Broker properties are static. But a request that sets a store of a listener to its present value reloads that store,
as in Kafka, to renew certificates. The response does not wait for the reload; the log reports its result.

Source: KIP-133, KIP-226, KIP-339; Kafka's `ConfigAdminManager`, `ConfigurationControlManager`,
`DynamicBrokerConfig`, `SslConfigs.RECONFIGURABLE_CONFIGS`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from coordinator.config.config_def import ConfigType, InvalidConfig
from coordinator.config.group_configs import check_group_configs
from coordinator.config.listener_properties import parse_listener_property
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.core.outcome import Context
from coordinator.topics.api_error import ApiError
from coordinator.topics.catalogue import Catalogue, ChangeOverrides
from coordinator.topics.catalogue_file import NO_CONFIGS, CatalogueState
from coordinator.topics.config_description import ConfigResourceType, check_broker_name
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import (
    Answer,
    ConfigChanged,
    GroupConfigChanged,
    StoresSet,
    TopicChange,
)
from coordinator.topics.data_plane_config import MAX_CONFIGS, MAX_CONFIGURED_GROUPS, BrokerConfig
from coordinator.topics.long_work import LongWork
from coordinator.topics.topic import Topic
from coordinator.topics.topic_name import find_name_error
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from protocol.messages.alter_configs import (
    AlterConfigsResource as ReplacedConfigs,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from storage.storage_errors import StorageError, format_error_reason


class AlterConfigOperation(IntEnum):
    """Kafka's codes for config operations."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(AlterConfigOperation)

RELOADABLE_STORES: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)
"""The listener properties that can be reloaded."""


async def answer_incremental_alter_configs(
    plane: DataPlane, request: IncrementalAlterConfigsRequest, context: Context, work: LongWork
) -> Answer:
    """Alter or reject each resource as a whole; with `validate_only` nothing changes."""
    responses, changes = await _alter_resources(
        plane, request.resources, context, work, validate_only=request.validate_only
    )
    return Answer(IncrementalAlterConfigsResponse(responses=responses), changes=changes)


async def answer_alter_configs(
    plane: DataPlane, request: AlterConfigsRequest, context: Context, work: LongWork
) -> Answer:
    """Replace all configs of each resource by those in the request: the older API."""
    responses, changes = await _alter_resources(
        plane, request.resources, context, work, validate_only=request.validate_only, replace=True
    )
    return Answer(AlterConfigsResponse(responses=responses), changes=changes)


async def _alter_resources(
    plane: DataPlane,
    resources: Sequence[AlterConfigsResource | ReplacedConfigs],
    context: Context,
    work: LongWork,
    *,
    validate_only: bool,
    replace: bool = False,
) -> tuple[list[AlterConfigsResourceResponse], list[TopicChange]]:
    """Alter each resource. Return the responses and the changes. `replace` removes all configs not set now."""
    if not validate_only:
        work.begin_changes()
    catalogue = plane.catalogue
    counts: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        counts[resource.resource_type, resource.resource_name] += 1
        await work.checkpoint()
    responses: list[AlterConfigsResourceResponse] = []
    changes: list[TopicChange] = []
    for named in resources:
        response = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=named.resource_type,
            resource_name=named.resource_name,
        )
        responses.append(response)
        try:
            if len(named.configs) > MAX_CONFIGS:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"a resource of more than {MAX_CONFIGS} configs")
            resource = _convert_to_incremental(named) if isinstance(named, ReplacedConfigs) else named
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource.resource_type == ConfigResourceType.GROUP:
                await _alter_group(plane, work, resource, changes, replace, validate_only)
                continue
            if resource.resource_type == ConfigResourceType.BROKER:
                names = _check_broker(plane, resource, context.node.node_id)
                if names and not validate_only:
                    changes.append(StoresSet(names))
                continue
            topic, change = _validate_resource(catalogue, resource, replace)
            is_new = catalogue.is_changing(topic.name) or change(topic.overrides) != topic.overrides
            if not validate_only and is_new and await catalogue.configure_topic(work, topic, change):
                changes.append(ConfigChanged(topic.name, tuple(sorted(topic.overrides.items()))))
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        except (OSError, StorageError) as error:
            response.error_code, response.error_message = (
                ErrorCode.KAFKA_STORAGE_ERROR,
                format_error_reason(error),
            )
        await work.checkpoint()
    return responses, changes


def _convert_to_incremental(resource: ReplacedConfigs) -> AlterConfigsResource:
    """Convert a resource of AlterConfigs to the incremental form."""
    return AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            AlterableConfig(name=config.name, config_operation=AlterConfigOperation.SET, value=config.value)
            for config in resource.configs
        ],
    )


def _check_broker(plane: DataPlane, resource: AlterConfigsResource, node_id: int) -> tuple[str, ...]:
    """Return the names of this broker's properties that the request sets to their present values. Deleting an unset
    property changes nothing.

    Raises:
        ApiError: the request changes a property.
    """
    _check_form(resource)
    check_broker_name(resource.resource_name, node_id, is_altered=True)
    _check_operations(resource)
    configs = [config for config in resource.configs if config.config_operation == AlterConfigOperation.SET]
    check_broker_configs(configs, plane.broker_configs, is_default=not resource.resource_name)
    return tuple(sorted(config.name for config in configs))


def _validate_resource(
    catalogue: Catalogue, resource: AlterConfigsResource, replace: bool
) -> tuple[Topic, ChangeOverrides]:
    """Return the topic and the change of its overrides.

    Raises:
        ApiError: the resource is invalid.
    """
    _check_form(resource)
    if resource.resource_type != ConfigResourceType.TOPIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown resource type {resource.resource_type}",
        )
    return _validate_topic(catalogue, resource, replace)


def _check_form(resource: AlterConfigsResource) -> None:
    """Check the consistency of a resource's configs.

    Raises:
        ApiError: the configs are inconsistent.
    """
    names = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in names.values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != AlterConfigOperation.DELETE
    ]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for config in resource.configs:
        if config.config_operation not in _OPERATIONS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {config.config_operation}")


def _check_operations(resource: AlterConfigsResource) -> None:
    """Check that APPEND and SUBTRACT apply only to lists.

    Raises:
        ApiError: an operation is invalid.
    """
    for config in resource.configs:
        if config.config_operation in (AlterConfigOperation.APPEND, AlterConfigOperation.SUBTRACT):
            operation = AlterConfigOperation(config.config_operation).name
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation} to key {config.name} because its type is not LIST.",
            )


async def _alter_group(
    plane: DataPlane,
    work: LongWork,
    resource: AlterConfigsResource,
    changes: list[TopicChange],
    replace: bool,
    validate_only: bool,
) -> None:
    """Alter the configs of a group, which need not exist.

    Raises:
        ApiError: a config is invalid.
        OSError: the disk failed.
    """
    _check_form(resource)
    group_id, catalogue = resource.resource_name, plane.catalogue
    if not group_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    _check_operations(resource)

    def change(state: CatalogueState) -> Mapping[str, str]:
        before = state.groups.get(group_id, NO_CONFIGS)
        overrides = {} if replace else dict(before)
        for config in resource.configs:
            if config.config_operation == AlterConfigOperation.DELETE:
                overrides.pop(config.name, None)
            else:
                overrides[config.name] = config.value or ""
        try:
            check_group_configs(overrides, plane.group_bounds)
        except InvalidConfig as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        if overrides and not before and len(state.groups) >= MAX_CONFIGURED_GROUPS:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{MAX_CONFIGURED_GROUPS} groups have configs already")
        return overrides

    before = catalogue.group_configs.find_configs(group_id)
    if change(catalogue.file.state) != before and not validate_only:
        configs = await catalogue.group_configs.change_configs(work, group_id, change)
        changes.append(GroupConfigChanged(group_id, tuple(sorted(configs.items()))))


def _validate_topic(
    catalogue: Catalogue, resource: AlterConfigsResource, replace: bool
) -> tuple[Topic, ChangeOverrides]:
    name = resource.resource_name
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = catalogue.find_topic(name)

    def change(before: Mapping[str, str]) -> dict[str, str]:
        overrides = {} if topic is None or replace else dict(before)
        try:
            for config in resource.configs:
                _apply_operation(catalogue, overrides, config)
            illegal = find_name_error(name)
            if illegal is not None:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
            catalogue.defaults.validate(overrides)
        except InvalidConfig as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return overrides

    overrides = change(NO_CONFIGS if topic is None else topic.overrides)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if not topic.hosted and overrides != topic.overrides:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"{name} is configured through the offsets.topic.… properties"
        )
    return topic, change


def _apply_operation(catalogue: Catalogue, overrides: dict[str, str], config: AlterableConfig) -> None:
    """Apply the operation on one property.

    Raises:
        ApiError: the operation is invalid.
    """
    if config.config_operation == AlterConfigOperation.DELETE:
        overrides.pop(config.name, None)
        return
    assert config.value is not None
    if config.config_operation == AlterConfigOperation.SET:
        overrides[config.name] = config.value
        return
    key = TOPIC_CONFIG_KEYS.get(config.name)
    operation = AlterConfigOperation(config.config_operation)
    if key is None or key.kind is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    values = [part for part in catalogue.defaults.find_effective(key, overrides).value.split(",") if part]
    for part in config.value.split(","):
        if operation is AlterConfigOperation.APPEND and part not in values:
            values.append(part)
        elif operation is AlterConfigOperation.SUBTRACT and part in values:
            values.remove(part)
    overrides[config.name] = ",".join(values)


def check_broker_configs(
    configs: Sequence[AlterableConfig], broker_configs: Iterable[BrokerConfig], *, is_default: bool
) -> None:
    """Check configs of a broker in the request.

    Args:
        configs: the configs of the request, well formed.
        broker_configs: the broker's properties.
        is_default: whether the request is for all brokers of the cluster.

    Raises:
        ApiError: a property cannot be altered.
    """
    names = {config.name for config in configs}
    stores = {name for name in names if _find_store(name) is not None}
    _refuse_names(names - stores - RELOADABLE_STORES, "Cannot update these configs dynamically")
    _refuse_names(
        names - stores,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    if is_default:
        _refuse_names(
            stores, "Cannot update these configs at default cluster level, broker id must be specified"
        )
    found = {each.key.name: each for each in broker_configs}
    _refuse_names(
        {config.name for config in configs if config.value != _find_store_value(config.name, found)},
        "Cannot update these configs dynamically, to other values than they have",
    )


def _refuse_names(names: set[str], problem: str) -> None:
    if names:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{problem}: [{', '.join(sorted(names))}]")


def _find_store(name: str) -> str | None:
    """Return the store property of a listener without the listener prefix; None for every other property."""
    found = parse_listener_property(name)
    return (
        found.name if found is not None and not found.mechanism and found.name in RELOADABLE_STORES else None
    )


def _find_store_value(name: str, found: Mapping[str, BrokerConfig]) -> str | None:
    """Return the value of a listener's store property, set for the listener or for all listeners."""
    of_listener = found.get(name)
    if of_listener is not None and of_listener.text is not None:
        return of_listener.text
    store = _find_store(name)
    assert store is not None
    of_all = found.get(store)
    return None if of_all is None else of_all.text
