"""OffsetFetch: DESCRIBE on the group, then on each topic.

Named topics that are refused come after the others, among those whose ids are unknown; of all topics of a group
those are missing. Source: Kafka's `KafkaApis.handleOffsetFetchRequest`, `fetchAllOffsetsForGroup`,
`fetchOffsetsForGroup`.
"""

from collections.abc import Generator, Hashable
from typing import Final, NamedTuple

from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.failed_topics import (
    Key,
    failed_and_others,
    id_key,
    name_key,
    places_of,
)
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import Pass, Refused, Steps
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_TOP_LEVEL_ERROR_SINCE: Final = 2
_SEVERAL_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_offset_fetch(request: OffsetFetchRequest, permits: Permits) -> Steps:
    """One group up to v7; from then on several, each of which is answered in its place."""
    if permits.api_version < _SEVERAL_GROUPS_SINCE:
        return (yield from _guard_one(request, permits))
    answers: list[OffsetFetchResponseGroup | _Sifted | None] = []
    """What is refused as a whole, the refused topics of what is not, None for all topics."""
    allowed: list[OffsetFetchRequestGroup] = []
    for group in request.groups:
        yield
        if not permits.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            answers.append(
                OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=_GROUP_DENIED)
            )
            continue
        allowed.append(group)
        answers.append(None if group.topics is None else (yield from _sift(group, permits)))

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        found = iter(response.groups)
        groups = []
        for answer in answers:
            if not isinstance(answer, OffsetFetchResponseGroup):
                answer = _seen(next(found), answer, permits)
            groups.append(answer)
        return OffsetFetchResponse(groups=groups)

    request.groups = allowed
    return Pass(finish) if allowed else Refused(finish(OffsetFetchResponse()))


class _Sifted(NamedTuple):
    """Of the topics of one group."""

    refused: list[OffsetFetchResponseTopics]
    places: dict[Hashable, int]
    key: Key


def _sift(group: OffsetFetchRequestGroup, permits: Permits) -> Generator[None, None, _Sifted]:
    """Takes the topics out of the request for a group that its client may not describe; the answer for those."""
    by_id = permits.api_version >= _TOPIC_IDS_SINCE
    key = id_key if by_id else name_key
    places = places_of(group.topics or (), key)
    kept, refused = [], []
    for topic in group.topics or ():
        name = permits.name_of(topic.topic_id) if by_id else topic.name
        if name is None or permits.allows_on_topic(Operation.DESCRIBE, name):
            kept.append(topic)
        else:
            parts = [_no_offset(index) for index in topic.partition_indexes]
            refused.append(
                OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            )
        yield
    group.topics = kept
    return _Sifted(refused, places, key)


def _seen(
    group: OffsetFetchResponseGroup, sifted: _Sifted | None, permits: Permits
) -> OffsetFetchResponseGroup:
    """The answer for a group as the client may see it."""
    if group.error_code != ErrorCode.NONE:
        return group
    if sifted is None:
        topics = [topic for topic in group.topics if permits.allows_on_topic(Operation.DESCRIBE, topic.name)]
    else:
        failed, others = failed_and_others(sifted.refused, group.topics, sifted.places, sifted.key)
        topics = others + failed
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _guard_one(request: OffsetFetchRequest, permits: Permits) -> Steps:
    """The form of v0 to v7; below v2 there is no error but that of a partition."""
    if not permits.allows(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        if permits.api_version >= _TOP_LEVEL_ERROR_SINCE:
            return Refused(OffsetFetchResponse(error_code=_GROUP_DENIED, topics=[]))
        topics = [_refused(topic, _GROUP_DENIED) for topic in request.topics or ()]
        return Refused(OffsetFetchResponse(topics=topics))
    refused: list[OffsetFetchResponseTopic] = []
    is_all = request.topics is None
    kept = []
    for topic in request.topics or ():
        if permits.allows_on_topic(Operation.DESCRIBE, topic.name):
            kept.append(topic)
        else:
            refused.append(_refused(topic, _TOPIC_DENIED))
        yield

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if response.error_code != ErrorCode.NONE:
            return response
        if is_all:
            topics = [
                topic for topic in response.topics if permits.allows_on_topic(Operation.DESCRIBE, topic.name)
            ]
        else:
            topics = response.topics + refused
        return OffsetFetchResponse(topics=topics)

    if not is_all:
        request.topics = kept
    return Pass(finish)


def _refused(asked: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    parts = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=-1, metadata="", error_code=error
        )
        for index in asked.partition_indexes
    ]
    return OffsetFetchResponseTopic(name=asked.name, partitions=parts)


def _no_offset(partition_index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition_index, committed_offset=-1, metadata="", error_code=_TOPIC_DENIED
    )
