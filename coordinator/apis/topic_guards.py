"""Guards of APIs about topics and configs that are more than a row of `authorization_table.py`: Metadata,
DescribeTopicPartitions, CreateTopics, CreatePartitions, DeleteTopics, DescribeConfigs, AlterConfigs,
IncrementalAlterConfigs.

Metadata and DescribeTopicPartitions need DESCRIBE on each topic. Denied topics follow the others, and are left out
of a response about all topics. Metadata needs CREATE on the cluster or on the topic to create it; topics that may
be described but not created come first among the denied ones, and a response about all topics logs no decision.
DescribeTopicPartitions always returns the authorized operations. In CreateTopics, CreatePartitions and DeleteTopics
an invalid request is reported before a missing right; the handler reports it. Config APIs need a right on the topic
or the group, or on the cluster for any other resource.

Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, `DescribeTopicPartitionsRequestHandler`, `ControllerApis`,
`ControllerApis.authorizeAlterResource`, `ConfigHelper`, `ConfigAdminManager`.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from coordinator.apis.auth_helper import AuthHelper, AuthorizationDenied
from coordinator.apis.authorization_rules import (
    PASS,
    CoroutineGuard,
    GuardPassed,
    GuardResult,
    allows_few,
    in_place,
    in_steps,
    partition_by_authorized,
)
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import CLUSTER_NAME, AclOperation, ResourceType
from coordinator.topics.topic_authorization import OPERATIONS_NOT_REQUESTED, TopicRights
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
)
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.schema import ZERO_UUID

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_DESCRIBE: Final = AclOperation.DESCRIBE
_BY_ID_SINCE: Final = 12


def create_metadata_guard(creates_topics: bool) -> CoroutineGuard:
    """Return the guard of Metadata.

    Args:
        creates_topics: whether the server creates topics that do not exist (`auto.create.topics.enable`).
    """

    async def guard(request: MetadataRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
        if _is_invalid_for_version(request, helper.api_version):
            return PASS  # the handler refuses the request
        is_all = request.topics is None or (helper.api_version == 0 and not request.topics)
        with_operations = request.include_topic_authorized_operations
        refused: list[MetadataResponseTopic] = []
        if not is_all:
            creates = creates_topics and request.allow_auto_topic_creation
            request.topics, refused = await _split_metadata_topics(
                request.topics or [], helper, budget, creates=creates
            )
        # In version 0 an empty list means all topics: the handler describes them, and the response omits them.
        shows_none = bool(refused) and not request.topics

        async def finish(response: MetadataResponse, finish_budget: Budget) -> MetadataResponse:
            shown: list[MetadataResponseTopic] = []
            not_created: list[MetadataResponseTopic] = []
            for step in in_steps([] if shows_none else response.topics):
                for topic in step:
                    if not is_all or helper.allows_on_topic(_DESCRIBE, topic.name or "", is_silent=True):
                        # A topic that was deleted since the guard, and that the client may not create, is denied.
                        (not_created if topic.error_code == _DENIED else shown).append(topic)
                        if with_operations:
                            _show_operations(topic, helper)
                await finish_budget.checkpoint()
            response.topics = shown + not_created + refused
            if request.include_cluster_authorized_operations:
                response.cluster_authorized_operations = helper.find_cluster_operations()
            return response

        return GuardPassed(finish, arguments=(TopicRights(may_create=partial(_may_create, helper)),))

    return guard


def _show_operations(
    topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic, helper: AuthHelper
) -> None:
    """Set the authorized operations of a topic, if its response has them."""
    if topic.topic_authorized_operations != OPERATIONS_NOT_REQUESTED and topic.name is not None:
        topic.topic_authorized_operations = helper.find_authorized_operations(ResourceType.TOPIC, topic.name)


async def _split_metadata_topics(
    topics: list[MetadataRequestTopic], helper: AuthHelper, budget: Budget, *, creates: bool
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Return the topics that the handler describes, and the entries of the refused ones, each once."""
    ids = dict.fromkeys(entry.topic_id for entry in topics if entry.topic_id != ZERO_UUID)
    if ids:  # the handler ignores names then
        return await _split_metadata_ids(ids, helper, budget)
    allowed: list[MetadataRequestTopic] = []
    hidden: list[MetadataResponseTopic] = []
    not_created: list[MetadataResponseTopic] = []
    for name in dict.fromkeys(entry.name or "" for entry in topics):
        if not helper.allows_on_topic(_DESCRIBE, name):
            hidden.append(helper.build_denied_entry(MetadataResponseTopic, name, _DENIED))
        elif creates and not _exists_or_may_be_created(helper, name):
            not_created.append(helper.build_denied_entry(MetadataResponseTopic, name, _DENIED))
        else:
            allowed.append(MetadataRequestTopic(name=name))
        await budget.checkpoint()
    return allowed, not_created + hidden


async def _split_metadata_ids(
    ids: dict[bytes, None], helper: AuthHelper, budget: Budget
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Split topics named by id. A denial does not reveal the name; an unknown id cannot be denied."""
    names: dict[bytes, str] = {}
    for topic_id in ids:
        name = helper.find_topic_name(topic_id)
        if name is not None:
            names[topic_id] = name
            helper.allows_on_topic(_DESCRIBE, name)
        await budget.checkpoint()
    allowed: list[MetadataRequestTopic] = []
    hidden: list[MetadataResponseTopic] = []
    for topic_id in ids:
        # An id that was unknown in its step may be known by now.
        name = names.get(topic_id) or helper.find_topic_name(topic_id)
        unnamed = MetadataRequestTopic(topic_id=topic_id)
        if name is None or helper.allows_on_topic(_DESCRIBE, name):
            allowed.append(unnamed)
        else:
            hidden.append(helper.build_denied_entry(MetadataResponseTopic, unnamed, _DENIED))
    return allowed, hidden


def _exists_or_may_be_created(helper: AuthHelper, name: str) -> bool:
    return helper.catalogue.find_topic(name) is not None or _may_create(helper, name)


def _may_create(helper: AuthHelper, name: str) -> bool:
    return helper.allows_on_cluster(AclOperation.CREATE, logs_denied=False) or helper.allows_on_topic(
        AclOperation.CREATE, name
    )


def _is_invalid_for_version(request: MetadataRequest, version: int) -> bool:
    """Return whether the request names topics in a way that its version does not have."""
    return any(
        (entry.name is None or entry.topic_id != ZERO_UUID)
        if version < _BY_ID_SINCE
        else (entry.name is None and entry.topic_id == ZERO_UUID)
        for entry in request.topics or ()
    )


async def guard_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check DESCRIBE on each topic. A cursor at a topic that is not shown moves to the next one that is."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    names = {topic.name for topic in (helper.catalogue if is_all else request.topics)}
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        return PASS  # the handler refuses the request
    allowed: list[str] = []
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(name for name in names if name >= first):
        if helper.allows_on_topic(_DESCRIBE, name):
            allowed.append(name)
        elif not is_all:
            refused.append(helper.build_denied_entry(DescribeTopicPartitionsResponseTopic, name, _DENIED))
        await budget.checkpoint()

    async def finish(
        response: DescribeTopicPartitionsResponse, finish_budget: Budget
    ) -> DescribeTopicPartitionsResponse:
        shown = []
        for step in in_steps(response.topics):
            for topic in step:
                # A response about all topics omits a topic that was deleted since its step.
                if not is_all or topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    _show_operations(topic, helper)
                    shown.append(topic)
            await finish_budget.checkpoint()
        response.topics = shown + refused
        return response

    if not allowed:
        return AuthorizationDenied(DescribeTopicPartitionsResponse(topics=refused))
    request.topics = [TopicRequest(name=name) for name in allowed]
    if cursor is not None and first != allowed[0]:
        request.cursor = Cursor(topic_name=allowed[0], partition_index=0)
    return GuardPassed(finish)


async def _count_names(
    topics: Sequence[CreatableTopic | CreatePartitionsTopic], budget: Budget
) -> Counter[str]:
    """Return how often a request names each topic."""
    counts: Counter[str] = Counter()
    for step in in_steps(topics):
        counts.update([topic.name for topic in step])
        await budget.checkpoint()
    return counts


async def guard_create_topics(
    request: CreateTopicsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check CREATE on the cluster, which covers all topics, or CREATE on each topic. Refused topics come last.

    The response describes a new topic only to a client with DESCRIBE_CONFIGS on it.
    """
    counts = await _count_names(request.topics, budget)
    covers = helper.allows_on_cluster(AclOperation.CREATE, logs_denied=False)
    may_describe = partial(helper.allows_on_topic, AclOperation.DESCRIBE_CONFIGS, is_silent=True)

    def allows(topic: CreatableTopic) -> bool:
        if counts[topic.name] > 1:
            return True  # the handler refuses a repeated topic
        may_describe(topic.name)
        return covers or helper.allows_on_topic(AclOperation.CREATE, topic.name)

    def refuse(topic: CreatableTopic) -> CreatableTopicResult:
        return helper.build_denied_entry(CreatableTopicResult, topic, _DENIED, "Authorization failed.")

    async def finish(response: CreateTopicsResponse, finish_budget: Budget) -> CreateTopicsResponse:
        for step in in_steps(response.topics):
            for topic in step:
                if topic.error_code == ErrorCode.NONE and not may_describe(topic.name):
                    topic.topic_config_error_code = _DENIED
                    topic.num_partitions = topic.replication_factor = -1
                    topic.configs = []
            await finish_budget.checkpoint()
        response.topics = response.topics + split.refused
        return response

    split = await partition_by_authorized(request.topics, allows, refuse, budget)
    request.topics = split.allowed
    if split.refused and not split.allowed:
        return AuthorizationDenied(CreateTopicsResponse(topics=split.refused))
    return GuardPassed(finish)


async def guard_create_partitions(
    request: CreatePartitionsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check ALTER on each topic. Refused topics come first."""
    counts = await _count_names(request.topics, budget)

    def allows(topic: CreatePartitionsTopic) -> bool:
        return counts[topic.name] > 1 or helper.allows_on_topic(AclOperation.ALTER, topic.name)

    def refuse(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        return helper.build_denied_entry(CreatePartitionsTopicResult, topic, _DENIED)

    async def finish(response: CreatePartitionsResponse, _: Budget) -> CreatePartitionsResponse:
        response.results = split.refused + response.results
        return response

    split = await partition_by_authorized(request.topics, allows, refuse, budget)
    if not split.refused:
        return PASS
    request.topics = split.allowed
    if not split.allowed:
        return AuthorizationDenied(CreatePartitionsResponse(results=split.refused))
    return GuardPassed(finish)


def guard_delete_topics(request: DeleteTopicsRequest, helper: AuthHelper) -> GuardResult:
    """Check DELETE on the cluster, which covers all topics, or let the data plane check the rights on each topic.

    Whether a topic exists decides which right counts: a name needs DESCRIBE before it is looked up, and DELETE
    afterwards.
    """
    if helper.allows_on_cluster(AclOperation.DELETE, logs_denied=False):
        return PASS
    return GuardPassed(
        arguments=(
            TopicRights(
                may_describe=partial(helper.allows_on_topic, AclOperation.DESCRIBE),
                may_delete=partial(helper.allows_on_topic, AclOperation.DELETE),
            ),
        )
    )


_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
"""Kafka's numbers of the resources with configs."""
_WITHOUT_MESSAGE: Final = (_BROKER, _BROKER_LOGGER)
"""The resources for which a denied alteration has no message."""
_ERRORS: Final = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _BROKER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _BROKER_LOGGER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _CLIENT_METRICS: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


async def guard_describe_configs(
    request: DescribeConfigsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check DESCRIBE_CONFIGS on each resource. Refused resources come last."""

    def allows(resource: DescribeConfigsResource) -> bool:
        return _is_authorized_on(helper, AclOperation.DESCRIBE_CONFIGS, resource)

    def refuse(resource: DescribeConfigsResource) -> DescribeConfigsResult:
        error = _ERRORS[resource.resource_type]
        return helper.build_denied_entry(DescribeConfigsResult, resource, error, error.message)

    async def finish(response: DescribeConfigsResponse, _: Budget) -> DescribeConfigsResponse:
        response.results = response.results + split.refused
        return response

    if allows_few(request.resources, allows):
        return PASS
    split = await partition_by_authorized(request.resources, allows, refuse, budget)
    request.resources = split.allowed
    return GuardPassed(finish) if split.refused else PASS


async def guard_alter_configs(
    request: AlterConfigsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check ALTER_CONFIGS on each resource. The handler refuses all loggers, for every client."""
    return await _guard_alteration(request, helper, budget, always_passed_type=_BROKER_LOGGER)


async def guard_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check ALTER_CONFIGS on each resource."""
    return await _guard_alteration(request, helper, budget)


async def _guard_alteration(
    request: Any, helper: AuthHelper, budget: Budget, *, always_passed_type: int | None = None
) -> GuardResult:
    """Check ALTER_CONFIGS on each resource, except those of type `always_passed_type`. Each keeps its place in the
    response.
    """

    def allows(resource: Any) -> bool:
        is_passed = resource.resource_type == always_passed_type
        return is_passed or _is_authorized_on(helper, AclOperation.ALTER_CONFIGS, resource)

    def refuse(resource: Any) -> AlterConfigsResourceResponse:
        error = _ERRORS[resource.resource_type]
        message = None if resource.resource_type in _WITHOUT_MESSAGE else error.message
        return helper.build_denied_entry(AlterConfigsResourceResponse, resource, error, message)

    async def finish(response: Any, finish_budget: Budget) -> Any:
        response.responses = await in_place(response.responses, split, str, finish_budget)
        return response

    if allows_few(request.resources, allows):
        return PASS
    split = await partition_by_authorized(request.resources, allows, refuse, budget)
    request.resources = split.allowed
    return GuardPassed(finish) if split.refused else PASS


def _is_authorized_on(helper: AuthHelper, operation: AclOperation, resource: Any) -> bool:
    """Return whether the client has a right on a resource with configs. The handler refuses other resources."""
    if resource.resource_type not in _ERRORS:
        return True
    if resource.resource_type == _TOPIC:
        return helper.allows(operation, ResourceType.TOPIC, resource.resource_name)
    if resource.resource_type == _GROUP:
        return helper.allows(operation, ResourceType.GROUP, resource.resource_name)
    return helper.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)
