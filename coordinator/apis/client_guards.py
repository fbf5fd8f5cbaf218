"""Guards of producers and consumers that are more than a row of `authorization_table.py`: Produce, Fetch,
InitProducerId, AddPartitionsToTxn, OffsetFetch, FindCoordinator, DescribeCluster.

A guard removes a denied topic from the request, so that the handler never looks it up. A topic with an unknown id
has no name, so ACLs cannot deny it.

Source: Kafka's `KafkaApis.handleProduceRequest`, `handleFetchRequest`, `handleInitProducerIdRequest`,
`handleAddPartitionsToTxnRequest`, `handleOffsetFetchRequest`, `fetchAllOffsetsForGroup`, `fetchOffsetsForGroup`,
`handleFindCoordinatorRequest`, `handleDescribeCluster`.
"""

from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from coordinator.apis import authorization_rules
from coordinator.apis.auth_helper import AuthHelper, AuthorizationDenied
from coordinator.apis.authorization_rules import (
    DENIED,
    PASS,
    GuardPassed,
    GuardResult,
    KeyOf,
    SplitElements,
    allows_few,
    allows_known_topic,
    in_place,
    in_steps,
    list_allowed,
    partition_by_authorized,
    separate_failed_topics,
)
from coordinator.apis.find_coordinator import CoordinatorType
from coordinator.core.response_status import CLOSE_CONNECTION
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.topics.produce_verification import has_transactional_batch
from coordinator.topics.topic_authorization import TopicRights
from coordinator.topics.topic_name import is_internal
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_WRITE: Final = AclOperation.WRITE
_DESCRIBE: Final = AclOperation.DESCRIBE
_GROUP: Final = ResourceType.GROUP
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TRANSACTION_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

_PRODUCE_BY_ID_SINCE: Final = 13


async def guard_produce(request: ProduceRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """Check WRITE on the transactional id of a transactional batch, then WRITE on each topic.

    A transactional id without such a batch is not checked. With acks=0 a denial closes the connection.
    """
    if await has_transactional_batch(budget, request):
        transactional_id = request.transactional_id
        if transactional_id is None or not helper.allows(_WRITE, _TRANSACTIONAL_ID, transactional_id):
            if request.acks == 0:
                return AuthorizationDenied(CLOSE_CONNECTION)
            return helper.deny_request(request, _TRANSACTION_DENIED)
    by_id = helper.api_version >= _PRODUCE_BY_ID_SINCE
    unknown: list[TopicProduceData] = []

    def allows(topic: TopicProduceData) -> bool:
        name = helper.find_topic_name(topic.topic_id) if by_id else topic.name
        if name is None:
            unknown.append(topic)
            return True
        return helper.allows_on_topic(_WRITE, name)

    def refuse(topic: TopicProduceData) -> TopicProduceResponse:
        return helper.build_denied_entry(TopicProduceResponse, topic, _TOPIC_DENIED)

    async def finish(response: ProduceResponse, _: Budget) -> ProduceResponse:
        response.responses = response.responses + refused
        return response

    split = await partition_by_authorized(request.topic_data, allows, refuse, budget)
    allowed, refused = split.allowed, split.refused
    # An id that was unknown in its step may be known by now.
    known = [topic for topic in unknown if helper.find_topic_name(topic.topic_id) is not None]
    late = {id(topic) for topic in known if not allows(topic)}
    if late:
        refused += [refuse(topic) for topic in allowed if id(topic) in late]
        allowed = [topic for topic in allowed if id(topic) not in late]
    if not refused:
        return PASS
    request.topic_data = allowed
    if request.acks == 0:
        return GuardPassed(closes=True) if allowed else AuthorizationDenied(CLOSE_CONNECTION)
    return GuardPassed(finish) if allowed else AuthorizationDenied(ProduceResponse(responses=refused))


def guard_fetch(request: FetchRequest, helper: AuthHelper) -> GuardResult:
    """Pass the handler a function that checks READ on a topic. A replica needs CLUSTER_ACTION instead.

    Only the data plane knows the topics of a fetch session, so it calls this function, once for each topic in a
    request.
    """
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        may_read_all = helper.allows_on_cluster(AclOperation.CLUSTER_ACTION)
        return GuardPassed(arguments=(TopicRights(may_read=lambda _: may_read_all),))
    return GuardPassed(arguments=(TopicRights(may_read=partial(helper.allows_on_topic, AclOperation.READ)),))


def guard_init_producer_id(request: InitProducerIdRequest, helper: AuthHelper) -> GuardResult:
    """Check WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic."""
    if request.transactional_id is not None:
        if helper.allows(_WRITE, _TRANSACTIONAL_ID, request.transactional_id):
            return PASS
        return helper.deny_request(request, _TRANSACTION_DENIED)
    if helper.may_write_any_topic() or helper.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE):
        return PASS
    return helper.deny_request(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


_BATCHES_SINCE: Final = 4
"""The version of AddPartitionsToTxn that brokers send."""


async def guard_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check WRITE on the transactional id, then WRITE on each topic. If one is denied, no partition is added.

    The versions of brokers, with several transactions, need CLUSTER_ACTION.
    """
    if helper.api_version >= _BATCHES_SINCE:
        if helper.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return PASS
        return helper.deny_request(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not helper.allows(_WRITE, _TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return helper.deny_request(request, _TRANSACTION_DENIED)
    is_refused = False
    for step in in_steps(topics):
        for topic in step:
            if not is_internal(topic.name) and not helper.allows_on_topic(_WRITE, topic.name):
                is_refused = True
        await budget.checkpoint()
    if not is_refused:
        return PASS
    results = [await _refuse_to_add(topic, helper, budget) for topic in topics]
    return AuthorizationDenied(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


async def _refuse_to_add(
    topic: AddPartitionsToTxnTopic, helper: AuthHelper, budget: Budget
) -> AddPartitionsToTxnTopicResult:
    """Return the result of a topic in a request with a denied topic."""
    await budget.checkpoint()
    if is_internal(topic.name) or not helper.allows_on_topic(_WRITE, topic.name):
        return helper.build_denied_entry(AddPartitionsToTxnTopicResult, topic, _TOPIC_DENIED)
    found = helper.catalogue.find_topic(topic.name)
    count = 0 if found is None else len(found.partitions)
    result = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=[])
    for step in in_steps(topic.partitions):
        result.results_by_partition += [
            AddPartitionsToTxnPartitionResult(
                partition_index=number,
                partition_error_code=ErrorCode.OPERATION_NOT_ATTEMPTED
                if 0 <= number < count
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for number in step
        ]
        await budget.checkpoint()
    return result


_SEVERAL_GROUPS_SINCE: Final = 8
_FETCH_BY_ID_SINCE: Final = 10


class _GroupSplit(NamedTuple):
    """The topics of one group in an OffsetFetch."""

    topics: SplitElements | None
    """None: the request reads all topics of the group."""
    find_key: KeyOf

    @property
    def may_change_response(self) -> bool:
        """Return whether the guard adds, omits or moves topics in the response.

        A handler looks up many topic ids in steps. A topic that is deleted meanwhile must follow the others.
        """
        if self.topics is None or self.topics.refused:
            return True
        is_large = len(self.topics.elements) > authorization_rules.ELEMENTS_PER_STEP
        return is_large and self.find_key is _find_id


_find_name: Final = attrgetter("name")
_find_id: Final = attrgetter("topic_id")


async def guard_offset_fetch(request: OffsetFetchRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """Check DESCRIBE on each group, then DESCRIBE on each of its topics.

    Denied topics follow the others, among the topics with unknown ids. A response about all topics of a group omits
    them. Versions below 8 have one group, and denied topics come last.
    """
    if helper.api_version < _SEVERAL_GROUPS_SINCE:
        return await _guard_single_group(request, helper, budget)
    splits: list[_GroupSplit] = []

    def refuse(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        return helper.build_denied_entry(OffsetFetchResponseGroup, group, _GROUP_DENIED)

    async def finish(response: OffsetFetchResponse, finish_budget: Budget) -> OffsetFetchResponse:
        shown: list[OffsetFetchResponseGroup] = []
        for group, split in zip(response.groups, splits, strict=True):
            shown.append(await _show_offsets(group, split, helper, finish_budget))
            await finish_budget.checkpoint()
        response.groups = await in_place(shown, groups, str, finish_budget)
        return response

    groups = SplitElements(request.groups, [], [], [])
    for position, group in enumerate(request.groups):
        await budget.checkpoint()
        if helper.allows(_DESCRIBE, _GROUP, group.group_id):
            groups.allowed.append(group)
            splits.append(await _split_topics(group, helper, budget))
        else:
            groups.refused.append(refuse(group))
            groups.positions.append(position)
    request.groups = groups.allowed
    if not groups.allowed:
        return AuthorizationDenied(OffsetFetchResponse(groups=groups.refused))
    if groups.refused or any(split.may_change_response for split in splits):
        return GuardPassed(finish)
    return PASS


async def _split_topics(group: OffsetFetchRequestGroup, helper: AuthHelper, budget: Budget) -> _GroupSplit:
    """Remove the topics that the client may not describe, and those with unknown ids, from the request of a group.

    The handler could find an unknown id later, without a decision.
    """
    by_id = helper.api_version >= _FETCH_BY_ID_SINCE
    if group.topics is None:
        return _GroupSplit(None, _find_name)

    def find_name(topic: OffsetFetchRequestTopics) -> str | None:
        return helper.find_topic_name(topic.topic_id)

    def refuse(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and find_name(topic) is None else _TOPIC_DENIED
        return helper.build_denied_entry(OffsetFetchResponseTopics, topic, error)

    if by_id:
        allows = partial(allows_known_topic, helper, _DESCRIBE)
        split = await partition_by_authorized(group.topics, allows, refuse, budget, find_name)
    else:
        allows = partial(helper.allows_on_topic, _DESCRIBE)
        split = await partition_by_authorized(group.topics, allows, refuse, budget, _find_name)
    group.topics = split.allowed
    return _GroupSplit(split, _find_id if by_id else _find_name)


async def _show_offsets(
    group: OffsetFetchResponseGroup, split: _GroupSplit, helper: AuthHelper, budget: Budget
) -> OffsetFetchResponseGroup:
    """Return the entry of a group as the client may see it."""
    if group.error_code != ErrorCode.NONE or not split.may_change_response:
        return group
    if split.topics is None:
        allows = partial(helper.allows_on_topic, _DESCRIBE)
        topics = await list_allowed(group.topics, allows, _find_name, budget)
    else:
        failed, others = await separate_failed_topics(group.topics, split.topics, split.find_key, budget)
        topics = others + failed
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


async def _guard_single_group(request: OffsetFetchRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """Check the versions with one group."""
    if not helper.allows(_DESCRIBE, _GROUP, request.group_id):
        return helper.deny_request(request, _GROUP_DENIED)

    def refuse(topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
        return helper.build_denied_entry(OffsetFetchResponseTopic, topic, _TOPIC_DENIED)

    async def finish(response: OffsetFetchResponse, finish_budget: Budget) -> OffsetFetchResponse:
        if response.error_code == ErrorCode.NONE:
            if split is None:
                response.topics = await list_allowed(response.topics, allows, _find_name, finish_budget)
            else:
                response.topics = response.topics + split.refused
        return response

    allows = partial(helper.allows_on_topic, _DESCRIBE)
    split: SplitElements | None = None
    if request.topics is not None:
        split = await partition_by_authorized(request.topics, allows, refuse, budget, _find_name)
        request.topics = split.allowed
        if not split.refused:
            return PASS
    return GuardPassed(finish)


_SEVERAL_KEYS_SINCE: Final = 4
_RESOURCES_BY_KEY_TYPE: Final = {
    int(CoordinatorType.GROUP): _GROUP,
    int(CoordinatorType.TRANSACTION): _TRANSACTIONAL_ID,
}


async def guard_find_coordinator(
    request: FindCoordinatorRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """Check DESCRIBE on each group or transactional id. A version below 4 has one key.

    The handler refuses other types of keys.
    """
    resource = _RESOURCES_BY_KEY_TYPE.get(request.key_type)
    if resource is None:
        return PASS
    error = DENIED[resource]
    if helper.api_version < _SEVERAL_KEYS_SINCE:
        if helper.allows(_DESCRIBE, resource, request.key):
            return PASS
        return helper.deny_request(request, error)

    def refuse(key: str) -> Coordinator:
        return helper.build_denied_entry(Coordinator, key, error, message="")

    async def finish(response: FindCoordinatorResponse, finish_budget: Budget) -> FindCoordinatorResponse:
        response.coordinators = await in_place(response.coordinators, split, str, finish_budget)
        return response

    allows = partial(helper.allows, _DESCRIBE, resource)
    if allows_few(request.coordinator_keys, allows):
        return PASS
    split = await partition_by_authorized(request.coordinator_keys, allows, refuse, budget)
    if not split.refused:
        return PASS
    request.coordinator_keys = split.allowed
    if not split.allowed:
        return AuthorizationDenied(FindCoordinatorResponse(coordinators=split.refused))
    return GuardPassed(finish)


def guard_describe_cluster(request: DescribeClusterRequest, helper: AuthHelper) -> GuardResult:
    """Let each client see the brokers. The authorized operations on the cluster need DESCRIBE on it."""
    if not request.include_cluster_authorized_operations:
        return PASS

    async def finish(response: DescribeClusterResponse, _: Budget) -> DescribeClusterResponse:
        if response.error_code == ErrorCode.NONE:
            response.cluster_authorized_operations = helper.find_cluster_operations()
        return response

    return GuardPassed(finish)
