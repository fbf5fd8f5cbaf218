"""IncrementalAlterConfigs and AlterConfigs for topics and groups; for this broker, `alter_broker_configs.py`.
Source: KIP-339, KIP-133, Kafka's `ConfigAdminManager`, `ConfigurationControlManager`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from coordinator.config.config_key import ConfigType, InvalidConfig
from coordinator.config.group_configs import check_group_configs
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.machine.outcome import Context, Now
from coordinator.topics.alter_broker_configs import check_broker_configs
from coordinator.topics.answer import Answer, ConfigChanged, GroupConfigChanged, StoresSet, TopicChange
from coordinator.topics.catalogue import Catalogue, ChangeOverrides
from coordinator.topics.catalogue_file import EMPTY, CatalogueState
from coordinator.topics.config import MOST_CONFIGS, MOST_CONFIGURED_GROUPS
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.describe_configs import ResourceType, check_broker_name
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark, Work
from coordinator.topics.topic import Topic
from coordinator.topics.topic_name import why_illegal
from protocol.errors import ErrorCode
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
from storage.errors import StorageError
from storage.os_error import reason_of


class Operation(IntEnum):
    """Kafka's numbers for what is done to a property."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(Operation)


def answer_incremental_alter_configs(
    plane: DataPlane, request: IncrementalAlterConfigsRequest, context: Context, now: Now
) -> Steps:
    """Each resource is changed as a whole or refused; with `validate_only` nothing changes."""
    responses, changes = yield from _alter(plane, request.resources, context, request.validate_only)
    return Answer(IncrementalAlterConfigsResponse(responses=responses), changes=changes)


def answer_alter_configs(plane: DataPlane, request: AlterConfigsRequest, context: Context, now: Now) -> Steps:
    """The older call: a resource has afterwards the configs that it was sent, and no other."""
    responses, changes = yield from _alter(
        plane, request.resources, context, request.validate_only, replace=True
    )
    return Answer(AlterConfigsResponse(responses=responses), changes=changes)


def _alter(
    plane: DataPlane,
    resources: Sequence[AlterConfigsResource | ReplacedConfigs],
    context: Context,
    validate_only: bool,
    *,
    replace: bool = False,
) -> Work[tuple[list[AlterConfigsResourceResponse], list[TopicChange]]]:
    """What became of each resource, and what has changed. `replace`: what is not set now falls away.

    A step for each, and one for each that changes: it is written to the disk.
    """
    if not validate_only:
        yield Mark.CHANGES
    catalogue = plane.catalogue
    counts: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        counts[resource.resource_type, resource.resource_name] += 1
        yield None
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
            if len(named.configs) > MOST_CONFIGS:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"a resource of more than {MOST_CONFIGS} configs")
            resource = _as_set(named) if isinstance(named, ReplacedConfigs) else named
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource.resource_type == ResourceType.GROUP:
                yield from _alter_group(plane, resource, changes, replace, validate_only)
                continue
            if resource.resource_type == ResourceType.BROKER:
                names = _check_broker(plane, resource, context.node.node_id)
                if names and not validate_only:
                    changes.append(StoresSet(names))
                continue
            topic, change = _validate(catalogue, resource, replace)
            is_new = catalogue.is_changing(topic.name) or change(topic.overrides) != topic.overrides
            if not validate_only and is_new and (yield from catalogue.configuring(topic, change)):
                changes.append(ConfigChanged(topic.name, tuple(sorted(topic.overrides.items()))))
        except Refusal as error:
            response.error_code, response.error_message = error.code, error.message
        except (OSError, StorageError) as error:
            response.error_code, response.error_message = ErrorCode.KAFKA_STORAGE_ERROR, reason_of(error)
        yield None
    return responses, changes


def _as_set(resource: ReplacedConfigs) -> AlterConfigsResource:
    """The older form of a resource in the newer one."""
    return AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            AlterableConfig(name=config.name, config_operation=Operation.SET, value=config.value)
            for config in resource.configs
        ],
    )


def _check_broker(plane: DataPlane, resource: AlterConfigsResource, node_id: int) -> tuple[str, ...]:
    """The names that are set of this broker, to what they are. What is deleted was never set. Raises Refusal."""
    _check_form(resource)
    check_broker_name(resource.resource_name, node_id, is_altered=True)
    _check_operations(resource)
    configs = [config for config in resource.configs if config.config_operation == Operation.SET]
    check_broker_configs(configs, plane.broker_configs, is_default=not resource.resource_name)
    return tuple(sorted(config.name for config in configs))


def _validate(
    catalogue: Catalogue, resource: AlterConfigsResource, replace: bool
) -> tuple[Topic, ChangeOverrides]:
    """The topic and the change of its overrides. Raises Refusal."""
    _check_form(resource)
    if resource.resource_type != ResourceType.TOPIC:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Unknown resource type {resource.resource_type}",
        )
    return _validate_topic(catalogue, resource, replace)


def _check_form(resource: AlterConfigsResource) -> None:
    """Whether what a resource has makes sense together. Raises Refusal."""
    names = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in names.values()):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != Operation.DELETE
    ]
    if nulls:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for config in resource.configs:
        if config.config_operation not in _OPERATIONS:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation type {config.config_operation}")


def _check_operations(resource: AlterConfigsResource) -> None:
    """Whether nothing is done that lists alone allow. Raises Refusal."""
    for config in resource.configs:
        if config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(config.config_operation).name
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation} to key {config.name} because its type is not LIST.",
            )


def _alter_group(
    plane: DataPlane,
    resource: AlterConfigsResource,
    changes: list[TopicChange],
    replace: bool,
    validate_only: bool,
) -> Work[None]:
    """The same for a group, which need not be there. Raises Refusal, OSError."""
    _check_form(resource)
    group_id, catalogue = resource.resource_name, plane.catalogue
    if not group_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    _check_operations(resource)

    def change(state: CatalogueState) -> Mapping[str, str]:
        before = state.groups.get(group_id, EMPTY)
        overrides = {} if replace else dict(before)
        for config in resource.configs:
            if config.config_operation == Operation.DELETE:
                overrides.pop(config.name, None)
            else:
                overrides[config.name] = config.value or ""
        try:
            check_group_configs(overrides, plane.group_bounds)
        except InvalidConfig as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from error
        if overrides and not before and len(state.groups) >= MOST_CONFIGURED_GROUPS:
            raise Refusal(ErrorCode.POLICY_VIOLATION, f"{MOST_CONFIGURED_GROUPS} groups have configs already")
        return overrides

    before = catalogue.group_configs.of(group_id)
    if change(catalogue.file.state) != before and not validate_only:
        configs = yield from catalogue.group_configs.changing(group_id, change)
        changes.append(GroupConfigChanged(group_id, tuple(sorted(configs.items()))))


def _validate_topic(
    catalogue: Catalogue, resource: AlterConfigsResource, replace: bool
) -> tuple[Topic, ChangeOverrides]:
    name = resource.resource_name
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = catalogue.get(name)

    def change(before: Mapping[str, str]) -> dict[str, str]:
        overrides = {} if topic is None or replace else dict(before)
        try:
            for config in resource.configs:
                _apply(catalogue, overrides, config)
            illegal = why_illegal(name)
            if illegal is not None:
                raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
            catalogue.defaults.validate(overrides)
        except InvalidConfig as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from error
        return overrides

    overrides = change(EMPTY if topic is None else topic.overrides)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if not topic.hosted and overrides != topic.overrides:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION, f"{name} is configured through the offsets.topic.… properties"
        )
    return topic, change


def _apply(catalogue: Catalogue, overrides: dict[str, str], config: AlterableConfig) -> None:
    """Changes one property. Raises Refusal."""
    if config.config_operation == Operation.DELETE:
        overrides.pop(config.name, None)
        return
    assert config.value is not None
    if config.config_operation == Operation.SET:
        overrides[config.name] = config.value
        return
    key = TOPIC_CONFIG_KEYS.get(config.name)
    operation = Operation(config.config_operation)
    if key is None or key.kind is not ConfigType.LIST:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    values = [part for part in catalogue.defaults.effective(key, overrides).value.split(",") if part]
    for part in config.value.split(","):
        if operation is Operation.APPEND and part not in values:
            values.append(part)
        elif operation is Operation.SUBTRACT and part in values:
            values.remove(part)
    overrides[config.name] = ",".join(values)
