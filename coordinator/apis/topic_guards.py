"""Guards of APIs about topics and configs: Metadata, DescribeTopicPartitions, CreateTopics, CreatePartitions,
DeleteTopics, DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Metadata and DescribeTopicPartitions need DESCRIBE on each topic. Denied topics follow the others, and are
left out of a response about all topics. Metadata needs CREATE on the cluster or on the topic to create it;
topics that may be described but not created come first among the denied ones, and a response about all topics
logs no decision. DescribeTopicPartitions always returns the authorized operations.
In CreateTopics, CreatePartitions and DeleteTopics an invalid request is reported before a missing right; the
handler reports it. Config APIs need a right on the topic or the group, or on the cluster for any other
resource.
Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, `DescribeTopicPartitionsRequestHandler`,
`ControllerApis`, `ControllerApis.authorizeAlterResource`, `ConfigHelper`, `ConfigAdminManager`.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from coordinator.apis.auth_helper import (
    PASS,
    AuthHelper,
    AuthorizationDenied,
    CoroutineGuard,
    GuardPassed,
    GuardResult,
    partition_by_authorized,
)
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import CLUSTER_NAME, AclOperation, ResourceType
from coordinator.topics.topic_authorization import OPERATIONS_NOT_REQUESTED, TopicRights
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
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
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.schema import ZERO_UUID

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_BY_ID_SINCE: Final = 12


def create_metadata_guard(creates_topics: bool) -> CoroutineGuard:
    """In: whether topics that are asked for are created (`auto.create.topics.enable`)."""

    async def guard(request: MetadataRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
        if _is_invalid_for_version(request, helper.api_version):
            return PASS  # and refused there
        is_all = request.topics is None or (helper.api_version == 0 and not request.topics)
        with_operations = request.include_topic_authorized_operations
        refused: list[MetadataResponseTopic] = []
        if is_all:
            await _decide_all_topics(helper, budget, with_operations=with_operations)
        else:
            request.topics, refused = await _split_metadata_names(
                request.topics or [],
                helper,
                budget,
                creates=creates_topics and request.allow_auto_topic_creation,
                with_operations=with_operations,
            )
        # The oldest version cannot ask for no topic: it is answered with all, of which none is shown.
        shows_none = bool(refused) and not request.topics

        def finish(response: MetadataResponse) -> MetadataResponse:
            topics = [] if shows_none else response.topics
            if is_all:
                topics = [
                    topic
                    for topic in topics
                    if helper.allows_on_topic(AclOperation.DESCRIBE, topic.name or "", is_silent=True)
                ]
            for topic in topics if with_operations else ():
                if topic.topic_authorized_operations != OPERATIONS_NOT_REQUESTED and topic.name is not None:
                    topic.topic_authorized_operations = helper.find_authorized_operations(
                        ResourceType.TOPIC, topic.name
                    )
            # A topic that was deleted since the guard, and that the client may not create, is refused as well.
            not_created = [topic for topic in topics if topic.error_code == _DENIED]
            response.topics = (
                [topic for topic in topics if topic.error_code != _DENIED] + not_created + refused
            )
            if request.include_cluster_authorized_operations:
                response.cluster_authorized_operations = helper.find_cluster_operations()
            return response

        return GuardPassed(finish, arguments=(TopicRights(may_create=partial(_may_create, helper)),))

    return guard


async def _decide_all_topics(helper: AuthHelper, budget: Budget, *, with_operations: bool) -> None:
    """Decide which of all topics are shown, so that the response finds nearly all decisions."""
    for name in [topic.name for topic in helper.catalogue]:
        if helper.allows_on_topic(AclOperation.DESCRIBE, name, is_silent=True) and with_operations:
            helper.find_authorized_operations(ResourceType.TOPIC, name)
        await budget.checkpoint()


async def _split_metadata_names(
    topics: list[MetadataRequestTopic],
    helper: AuthHelper,
    budget: Budget,
    *,
    creates: bool,
    with_operations: bool,
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """What is left to be described, and the answers to what is refused, each once."""
    ids = dict.fromkeys(entry.topic_id for entry in topics if entry.topic_id != ZERO_UUID)
    if ids:  # names alone are not looked at then
        return await _split_metadata_ids(ids, helper, budget, with_operations=with_operations)
    allowed: list[MetadataRequestTopic] = []
    hidden: list[MetadataResponseTopic] = []
    not_created: list[MetadataResponseTopic] = []
    for name in dict.fromkeys(entry.name or "" for entry in topics):
        if not helper.allows_on_topic(AclOperation.DESCRIBE, name):
            hidden.append(helper.build_denied_entry(MetadataResponseTopic, name, _DENIED))
        elif creates and not _exists_or_may_be_created(helper, name):
            not_created.append(helper.build_denied_entry(MetadataResponseTopic, name, _DENIED))
        else:
            allowed.append(MetadataRequestTopic(name=name))
            if with_operations:
                helper.find_authorized_operations(ResourceType.TOPIC, name)
        await budget.checkpoint()
    return allowed, not_created + hidden


async def _split_metadata_ids(
    ids: dict[bytes, None], helper: AuthHelper, budget: Budget, *, with_operations: bool
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Split topics named by id. A refusal does not tell the name; an unknown id cannot be refused."""
    names: dict[bytes, str] = {}
    for topic_id in ids:
        name = helper.find_topic_name(topic_id)
        if name is not None:
            names[topic_id] = name
            if helper.allows_on_topic(AclOperation.DESCRIBE, name) and with_operations:
                helper.find_authorized_operations(ResourceType.TOPIC, name)
        await budget.checkpoint()
    allowed: list[MetadataRequestTopic] = []
    hidden: list[MetadataResponseTopic] = []
    for topic_id in ids:
        # An id that was unknown in its step may be known by now.
        name = names.get(topic_id) or helper.find_topic_name(topic_id)
        unnamed = MetadataRequestTopic(topic_id=topic_id)
        if name is None or helper.allows_on_topic(AclOperation.DESCRIBE, name):
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
    """Whether topics are asked for in a way that the version does not know."""
    return any(
        (entry.name is None or entry.topic_id != ZERO_UUID)
        if version < _BY_ID_SINCE
        else (entry.name is None and entry.topic_id == ZERO_UUID)
        for entry in request.topics or ()
    )


async def guard_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """A cursor at a topic that is not shown is one at the next that is."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    names = {topic.name for topic in (helper.catalogue if is_all else request.topics)}
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        return PASS  # and refused there
    allowed: list[str] = []
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(name for name in names if name >= first):
        if helper.allows_on_topic(AclOperation.DESCRIBE, name):
            allowed.append(name)
            if not is_all:
                # The operations are cached here, in steps: `finish` has one step for all topics.
                helper.find_authorized_operations(ResourceType.TOPIC, name)
        elif not is_all:
            refused.append(helper.build_denied_entry(DescribeTopicPartitionsResponseTopic, name, _DENIED))
        await budget.checkpoint()

    def finish(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            if topic.topic_authorized_operations != OPERATIONS_NOT_REQUESTED and topic.name is not None:
                topic.topic_authorized_operations = helper.find_authorized_operations(
                    ResourceType.TOPIC, topic.name
                )
        # A topic that was deleted since its step is not one of all topics.
        response.topics = [
            topic
            for topic in response.topics
            if not is_all or topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ] + refused
        return response

    if not allowed:
        return AuthorizationDenied(DescribeTopicPartitionsResponse(topics=refused))
    request.topics = [TopicRequest(name=name) for name in allowed]
    if cursor is not None and first != allowed[0]:
        request.cursor = Cursor(topic_name=allowed[0], partition_index=0)
    return GuardPassed(finish)


async def _count_names(
    topics: Iterable[CreatableTopic | CreatePartitionsTopic], budget: Budget
) -> Counter[str]:
    """Return how often a request names each topic."""
    counts: Counter[str] = Counter()
    for topic in topics:
        counts[topic.name] += 1
        await budget.checkpoint()
    return counts


async def guard_create_topics(
    request: CreateTopicsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """CREATE on the cluster covers all; else CREATE on each topic; the refused come last. What was created is
    described to who may describe its configs."""
    counts = await _count_names(request.topics, budget)
    covers = helper.allows_on_cluster(AclOperation.CREATE, logs_denied=False)

    def allows(topic: CreatableTopic) -> bool:
        if counts[topic.name] > 1:
            return True  # which is what it is refused for
        helper.allows_on_topic(AclOperation.DESCRIBE_CONFIGS, topic.name, is_silent=True)
        return covers or helper.allows_on_topic(AclOperation.CREATE, topic.name)

    def refuse(topic: CreatableTopic) -> CreatableTopicResult:
        return helper.build_denied_entry(CreatableTopicResult, topic, _DENIED, "Authorization failed.")

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            is_created = topic.error_code == ErrorCode.NONE
            if is_created and not helper.allows_on_topic(
                AclOperation.DESCRIBE_CONFIGS, topic.name, is_silent=True
            ):
                topic.topic_config_error_code = _DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        return CreateTopicsResponse(topics=response.topics + refused)

    allowed, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    request.topics = allowed
    return (
        GuardPassed(finish)
        if allowed or not refused
        else AuthorizationDenied(CreateTopicsResponse(topics=refused))
    )


async def guard_create_partitions(
    request: CreatePartitionsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """ALTER on each topic; the refused come first."""
    counts = await _count_names(request.topics, budget)

    def allows(topic: CreatePartitionsTopic) -> bool:
        return counts[topic.name] > 1 or helper.allows_on_topic(AclOperation.ALTER, topic.name)

    def refuse(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        return helper.build_denied_entry(CreatePartitionsTopicResult, topic, _DENIED)

    def finish(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=refused + response.results)

    allowed, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    if not refused:
        return PASS
    request.topics = allowed
    return GuardPassed(finish) if allowed else AuthorizationDenied(CreatePartitionsResponse(results=refused))


def guard_delete_topics(request: DeleteTopicsRequest, helper: AuthHelper) -> GuardResult:
    """DELETE on the cluster covers all. Otherwise the data plane checks the rights on each topic, because whether a
    topic exists decides which right counts: a name needs DESCRIBE before it is looked up, and DELETE afterwards."""
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
"""What has configs: Kafka's numbers."""
_WITHOUT_MESSAGE: Final = (_BROKER, _BROKER_LOGGER)
"""What is refused without a word when it is to be altered."""
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
    """DESCRIBE_CONFIGS; the refused come last."""

    def refuse(resource: DescribeConfigsResource) -> DescribeConfigsResult:
        error = _ERRORS[resource.resource_type]
        return helper.build_denied_entry(DescribeConfigsResult, resource, error, error.message)

    def finish(response: DescribeConfigsResponse) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(results=response.results + refused)

    request.resources, refused = await partition_by_authorized(
        request.resources,
        lambda resource: _is_authorized_on(helper, AclOperation.DESCRIBE_CONFIGS, resource),
        refuse,
        budget,
    )
    return GuardPassed(finish) if refused else PASS


async def guard_alter_configs(
    request: AlterConfigsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """ALTER_CONFIGS; each is answered in its place."""
    return await _guard_alteration(
        request, helper, budget, AlterConfigsResponse, always_passed_type=_BROKER_LOGGER
    )


async def guard_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """ALTER_CONFIGS; each is answered in its place."""
    return await _guard_alteration(request, helper, budget, IncrementalAlterConfigsResponse)


async def _guard_alteration(
    request: Any,
    helper: AuthHelper,
    budget: Budget,
    response_class: type[Any],
    *,
    always_passed_type: int | None = None,
) -> GuardResult:
    """In: the kind of resource that nobody can alter so, which is what is told to everybody."""
    answers: list[AlterConfigsResourceResponse | None] = []
    allowed: list[Any] = []
    for resource in request.resources:
        if resource.resource_type == always_passed_type or _is_authorized_on(
            helper, AclOperation.ALTER_CONFIGS, resource
        ):
            allowed.append(resource)
            answers.append(None)
        else:
            error = _ERRORS[resource.resource_type]
            message = None if resource.resource_type in _WITHOUT_MESSAGE else error.message
            answers.append(helper.build_denied_entry(AlterConfigsResourceResponse, resource, error, message))
        await budget.checkpoint()
    if len(allowed) == len(answers):
        return PASS

    def finish(response: Any) -> Any:
        found = iter(response.responses)
        return response_class(responses=[answer or next(found) for answer in answers])

    request.resources = allowed
    return GuardPassed(finish)


def guard_list_config_resources(request: ListConfigResourcesRequest, helper: AuthHelper) -> GuardResult:
    """DESCRIBE_CONFIGS on the cluster."""
    if helper.allows_on_cluster(AclOperation.DESCRIBE_CONFIGS):
        return PASS
    return helper.deny_request(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _is_authorized_on(helper: AuthHelper, operation: AclOperation, resource: Any) -> bool:
    """Whether something may be done to what has configs. Kinds that there are not are refused by who answers."""
    if resource.resource_type not in _ERRORS:
        return True
    if resource.resource_type == _TOPIC:
        return helper.allows(operation, ResourceType.TOPIC, resource.resource_name)
    if resource.resource_type == _GROUP:
        return helper.allows(operation, ResourceType.GROUP, resource.resource_name)
    return helper.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)
