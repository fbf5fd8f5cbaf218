"""Guards of OffsetCommit, TxnOffsetCommit and OffsetFetch, and the position of failed topics in their
responses.

OffsetCommit and TxnOffsetCommit check the group first, then its topics. The guard denies a topic before it is
looked up. In versions with topic ids, a topic with an unknown id has no name to deny. Topics that failed
before the group saw them, denied or unknown, stand together in the order of the request.
OffsetFetch needs DESCRIBE on the group, then on each topic. Denied topics follow the others, among the topics
with unknown ids; a response about all topics of a group leaves them out.
Source: Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleTxnOffsetCommitRequest`,
`handleOffsetFetchRequest`, `fetchAllOffsetsForGroup`, `fetchOffsetsForGroup`; `OffsetCommitResponse.Builder`,
`OffsetDeleteResponse.Builder`.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NamedTuple

from coordinator.apis.auth_helper import PASS, AuthHelper, AuthorizationDenied, GuardPassed, GuardResult
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import AclOperation, ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)

_COMMIT_BY_ID_SINCE: Final = 10
_TXN_COMMIT_BY_ID_SINCE: Final = 6
_SEVERAL_GROUPS_SINCE: Final = 8
_FETCH_BY_ID_SINCE: Final = 10
_READ: Final = AclOperation.READ
_GROUP: Final = ResourceType.GROUP
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

_UNKNOWN_TOPIC_ERRORS: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

TopicKey = Callable[[Any], Hashable]
"""What tells a topic of a request, or of its answer, from the others."""


async def guard_offset_commit(
    request: OffsetCommitRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """READ on the group, then READ on each topic."""
    if not helper.allows(_READ, _GROUP, request.group_id):
        return helper.deny_request(request, _GROUP_DENIED)
    by_id = helper.api_version >= _COMMIT_BY_ID_SINCE
    return await _split_commit(
        request, helper, budget, by_id, OffsetCommitResponseTopic, OffsetCommitResponse
    )


async def guard_txn_offset_commit(
    request: TxnOffsetCommitRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """WRITE on the transactional id, READ on the group, then READ on each topic."""
    if not helper.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return helper.deny_request(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not helper.allows(_READ, _GROUP, request.group_id):
        return helper.deny_request(request, _GROUP_DENIED)
    by_id = helper.api_version >= _TXN_COMMIT_BY_ID_SINCE
    return await _split_commit(
        request, helper, budget, by_id, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponse
    )


async def _split_commit(
    request: Any,
    helper: AuthHelper,
    budget: Budget,
    by_id: bool,
    topic_class: type[Any],
    response_class: type[Any],
) -> GuardResult:
    """Take the topics out of a commit that its client may not read, and those with unknown ids.

    An id that is unknown here would pass without a decision, and the handler might find it later.
    """
    key = id_key if by_id else name_key
    positions = find_positions(request.topics, key)
    refused: list[Any] = []
    allowed: list[Any] = []
    for topic in request.topics:
        name = helper.find_topic_name(topic.topic_id) if by_id else topic.name
        if name is None:
            refused.append(helper.build_denied_entry(topic_class, topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif helper.allows_on_topic(_READ, name):
            allowed.append(topic)
        else:
            refused.append(helper.build_denied_entry(topic_class, topic, _TOPIC_DENIED))
        await budget.checkpoint()
    if not refused:
        return PASS

    def finish(response: Any) -> Any:
        failed, others = split_failed_topics(refused, response.topics, positions, key)
        merged: dict[object, Any] = {}
        for topic in (*failed, *others):
            first = merged.setdefault(key(topic), topic)
            if first is not topic:
                first.partitions += topic.partitions
        return response_class(topics=list(merged.values()))

    request.topics = allowed
    return GuardPassed(finish) if allowed else AuthorizationDenied(finish(response_class(topics=[])))


async def guard_offset_fetch(request: OffsetFetchRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """One group up to v7; from then on several, each of which is answered in its place."""
    if helper.api_version < _SEVERAL_GROUPS_SINCE:
        return await _guard_single_group(request, helper, budget)
    answers: list[OffsetFetchResponseGroup | _SplitTopics | None] = []
    """What is refused as a whole, the refused topics of what is not, None for all topics."""
    allowed: list[OffsetFetchRequestGroup] = []
    for group in request.groups:
        await budget.checkpoint()
        if not helper.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            answers.append(helper.build_denied_entry(OffsetFetchResponseGroup, group, _GROUP_DENIED))
            continue
        allowed.append(group)
        answers.append(None if group.topics is None else await _split_fetch(group, helper, budget))

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        found = iter(response.groups)
        groups = []
        for answer in answers:
            if not isinstance(answer, OffsetFetchResponseGroup):
                answer = _filter_offsets(next(found), answer, helper)
            groups.append(answer)
        return OffsetFetchResponse(groups=groups)

    request.groups = allowed
    return GuardPassed(finish) if allowed else AuthorizationDenied(finish(OffsetFetchResponse()))


class _SplitTopics(NamedTuple):
    """The denied topics of one group, and the positions of all."""

    refused: list[OffsetFetchResponseTopics]
    positions: dict[Hashable, int]
    key: TopicKey


async def _split_fetch(group: OffsetFetchRequestGroup, helper: AuthHelper, budget: Budget) -> _SplitTopics:
    """Take the topics out of the request for a group that its client may not describe, and those with unknown ids:
    see `_split_commit`."""
    by_id = helper.api_version >= _FETCH_BY_ID_SINCE
    key = id_key if by_id else name_key
    positions = find_positions(group.topics or (), key)
    kept, refused = [], []
    for topic in group.topics or ():
        name = helper.find_topic_name(topic.topic_id) if by_id else topic.name
        if name is None:
            refused.append(
                helper.build_denied_entry(OffsetFetchResponseTopics, topic, ErrorCode.UNKNOWN_TOPIC_ID)
            )
        elif helper.allows_on_topic(AclOperation.DESCRIBE, name):
            kept.append(topic)
        else:
            refused.append(helper.build_denied_entry(OffsetFetchResponseTopics, topic, _TOPIC_DENIED))
        await budget.checkpoint()
    group.topics = kept
    return _SplitTopics(refused, positions, key)


def _filter_offsets(
    group: OffsetFetchResponseGroup, split: _SplitTopics | None, helper: AuthHelper
) -> OffsetFetchResponseGroup:
    """The answer for a group as the client may see it."""
    if group.error_code != ErrorCode.NONE:
        return group
    if split is None:
        topics = [
            topic for topic in group.topics if helper.allows_on_topic(AclOperation.DESCRIBE, topic.name)
        ]
    else:
        failed, others = split_failed_topics(split.refused, group.topics, split.positions, split.key)
        topics = others + failed
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


async def _guard_single_group(request: OffsetFetchRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """The form of v0 to v7."""
    if not helper.allows(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return helper.deny_request(request, _GROUP_DENIED)
    refused: list[OffsetFetchResponseTopic] = []
    is_all = request.topics is None
    kept = []
    for topic in request.topics or ():
        if helper.allows_on_topic(AclOperation.DESCRIBE, topic.name):
            kept.append(topic)
        else:
            refused.append(helper.build_denied_entry(OffsetFetchResponseTopic, topic, _TOPIC_DENIED))
        await budget.checkpoint()

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if response.error_code != ErrorCode.NONE:
            return response
        if is_all:
            topics = [
                topic
                for topic in response.topics
                if helper.allows_on_topic(AclOperation.DESCRIBE, topic.name)
            ]
        else:
            topics = response.topics + refused
        return OffsetFetchResponse(topics=topics)

    if not is_all:
        request.topics = kept
    return GuardPassed(finish)


def name_key(topic: Any) -> Hashable:
    """Where topics have names."""
    name: str = topic.name
    return name


def id_key(topic: Any) -> Hashable:
    """Where they have ids."""
    topic_id: bytes = topic.topic_id
    return topic_id


def find_positions(topics: Iterable[Any], key: TopicKey) -> dict[Hashable, int]:
    """Where each topic of a request was first named."""
    positions: dict[Hashable, int] = {}
    for topic in topics:
        positions.setdefault(key(topic), len(positions))
    return positions


def split_failed_topics(
    refused: list[Any], answered: Iterable[Any], positions: dict[Hashable, int], key: TopicKey
) -> tuple[list[Any], list[Any]]:
    """The answers for topics that failed, in their order, and those of the group. In: what the guard refused; what
    the handler said of the others."""
    failed = list(refused)
    others: list[Any] = []
    for topic in answered:
        (failed if _is_unknown_topic(topic) else others).append(topic)
    failed.sort(key=lambda topic: positions[key(topic)])
    return failed, others


def _is_unknown_topic(topic: Any) -> bool:
    return bool(topic.partitions) and topic.partitions[0].error_code in _UNKNOWN_TOPIC_ERRORS
