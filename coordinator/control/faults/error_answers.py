"""Where an error stands in the answer of each API of groups, as Kafka puts it, and what of a request it is about.

A request is split in the part that is refused and the rest, which is answered as ever; the refusal is then merged
into that answer. The same merge puts an error into an answer that says something else. No answer is changed in
place: the coordinator hands the same ones to several members.

Source: `getErrorResponse` of Kafka's request classes.
"""

from collections.abc import Callable, Collection
from copy import deepcopy
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import structs

from coordinator.group.refusal import RULES, error_response
from coordinator.group.requests import FetchOffsets
from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.leave_group import LeaveGroupResponse
from protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

PartitionFits = Callable[[str], bool]
"""Whether a partition ("orders-0") is one that an error is about."""
TopicName = Callable[[bytes], str | None]
TopicKey = Callable[[Any], object]

_TOP_LEVEL_FETCH_ERROR_SINCE: Final = 2
_SEVERAL_FETCHED_SINCE: Final = 8
_SEVERAL_FOUND_SINCE: Final = 4
_TOPIC_IDS_SINCE: Final = 10
_NO_OFFSET: Final = -1
_LISTS: Final = {
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
    ApiKey.DELETE_GROUPS: "groups_names",
    ApiKey.FIND_COORDINATOR: "coordinator_keys",
    ApiKey.OFFSET_FETCH: "groups",
}
"""The field of a request that names several groups."""
_ANSWERED: Final = {
    ApiKey.DESCRIBE_GROUPS: ("groups", "group_id"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups", "group_id"),
    ApiKey.DELETE_GROUPS: ("results", "group_id"),
    ApiKey.FIND_COORDINATOR: ("coordinators", "key"),
    ApiKey.OFFSET_FETCH: ("groups", "group_id"),
}
"""The field of an answer that has one entry for each, and the field of that which names it."""


class Refusal(NamedTuple):
    """What of a request is refused: `part` of it, and the `rest`, None where nothing is left."""

    part: Any
    rest: Any | None


def loading_error(key: int) -> ErrorCode:
    """What an API is told while a partition of groups is loading."""
    rules = RULES.get(APIS[key].request)
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if rules is None else rules.while_loading


def split(
    key: int,
    request: Any,
    groups: Collection[str],
    partitions: PartitionFits | None,
    topic_name: TopicName,
) -> Refusal:
    """Splits a request in what is about these groups and, where that is asked for, these partitions, and the rest.
    It is left as it is."""
    field = _LISTS.get(ApiKey(key))
    if field is not None and getattr(request, field):
        return _split_groups(key, request, field, groups, partitions, topic_name)
    if partitions is None:
        return Refusal(request, None)
    return _split_partitions(request, partitions, topic_name)


def _split_groups(
    key: int,
    request: Any,
    field: str,
    groups: Collection[str],
    partitions: PartitionFits | None,
    topic_name: TopicName,
) -> Refusal:
    refused, others = [], []
    for entry in getattr(request, field):
        if _group_of(entry) not in groups:
            others.append(entry)
        elif partitions is None or key != ApiKey.OFFSET_FETCH:
            refused.append(entry)
        else:
            part, rest = _split_partitions(entry, partitions, topic_name)
            refused += [part] if part.topics else []
            others += [] if rest is None else [rest]
    rest_request = structs.replace(request, **{field: others}) if others else None
    return Refusal(structs.replace(request, **{field: refused}), rest_request)


def _group_of(entry: Any) -> str:
    return str(getattr(entry, "group_id", entry))


def _split_partitions(request: Any, fits: PartitionFits, topic_name: TopicName) -> Refusal:
    refused, others = [], []
    for topic in request.topics or ():
        name = getattr(topic, "name", "") or topic_name(getattr(topic, "topic_id", b"")) or ""
        field = "partition_indexes" if hasattr(topic, "partition_indexes") else "partitions"
        chosen: list[Any] = []
        left: list[Any] = []
        for part in getattr(topic, field):
            (chosen if fits(f"{name}-{_index(part)}") else left).append(part)
        if chosen:
            refused.append(structs.replace(topic, **{field: chosen}))
        if left:
            others.append(structs.replace(topic, **{field: left}))
    rest = structs.replace(request, topics=others) if others or request.topics is None else None
    return Refusal(structs.replace(request, topics=refused), rest)


def _index(part: Any) -> int:
    return int(getattr(part, "partition_index", part))


def refused(key: int, part: Any, version: int, error: ErrorCode, *, is_by_partition: bool) -> Any:
    """The answer that says an error of all of a request, at its partitions where that is asked for."""
    if key == ApiKey.FIND_COORDINATOR:
        return _find_refused(part, version, error)
    if key == ApiKey.OFFSET_FETCH:
        return _fetch_refused(part, version, error, is_by_partition)
    if key == ApiKey.OFFSET_DELETE and is_by_partition:
        return _delete_refused(part, error)
    if error is ErrorCode.NONE and key == ApiKey.HEARTBEAT:
        return HeartbeatResponse(error_code=error)
    if error is ErrorCode.NONE and key == ApiKey.LEAVE_GROUP:
        return LeaveGroupResponse(error_code=error)
    return error_response(part, version, error)


def _find_refused(part: Any, version: int, error: ErrorCode) -> FindCoordinatorResponse:
    if version < _SEVERAL_FOUND_SINCE:
        return FindCoordinatorResponse(
            error_code=error, error_message=error.name, node_id=-1, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=error.name)
            for key in part.coordinator_keys
        ]
    )


def _fetch_refused(part: Any, version: int, error: ErrorCode, is_by_partition: bool) -> OffsetFetchResponse:
    if version >= _SEVERAL_FETCHED_SINCE:
        return OffsetFetchResponse(
            groups=[_fetch_group_refused(group, error, is_by_partition) for group in part.groups]
        )
    if version >= _TOP_LEVEL_FETCH_ERROR_SINCE and not is_by_partition:
        return OffsetFetchResponse(topics=[], error_code=error)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in part.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)


def _fetch_group_refused(group: Any, error: ErrorCode, is_by_partition: bool) -> OffsetFetchResponseGroup:
    if not is_by_partition:
        fetch = FetchOffsets(group)
        answer: OffsetFetchResponseGroup = error_response(fetch, _SEVERAL_FETCHED_SINCE, error)
        return answer
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in group.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _delete_refused(part: Any, error: ErrorCode) -> OffsetDeleteResponse:
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=entry.partition_index, error_code=error)
                for entry in topic.partitions
            ],
        )
        for topic in part.topics
    ]
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


def merged(
    key: int,
    version: int,
    answer: Any,
    refusal: Any,
    asked_groups: Collection[str],
    *,
    is_by_partition: bool,
) -> Any:
    """An answer with what is refused in place of what it says of that, in the order of the request."""
    topic_key = attrgetter("topic_id" if version >= _TOPIC_IDS_SINCE else "name")
    names = _ANSWERED.get(ApiKey(key))
    if names is not None and getattr(refusal, names[0]):
        return _merge_groups(answer, refusal, names, asked_groups, topic_key if is_by_partition else None)
    if key != ApiKey.OFFSET_COMMIT and not is_by_partition:
        return refusal
    return _with_topics(answer, refusal, topic_key)


def _merge_groups(
    answer: Any, refusal: Any, names: tuple[str, str], asked: Collection[str], topic_key: TopicKey | None
) -> Any:
    field, name = names
    entries = {getattr(entry, name): entry for entry in getattr(answer, field)}
    for entry in getattr(refusal, field):
        there = entries.get(getattr(entry, name))
        if there is not None and topic_key is not None:
            entry = _with_topics(there, entry, topic_key)
        entries[getattr(entry, name)] = entry
    order = {group_id: number for number, group_id in enumerate(dict.fromkeys(asked))}
    found = sorted(entries.values(), key=lambda entry: order.get(getattr(entry, name), len(order)))
    return structs.replace(answer, **{field: found})


def _with_topics(answer: Any, refusal: Any, topic_key: TopicKey) -> Any:
    """An answer with other words about some partitions; one that refuses everything is left as it is."""
    if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return answer
    answer = deepcopy(answer)
    by_key = {topic_key(topic): topic for topic in answer.topics}
    for topic in refusal.topics:
        there = by_key.get(topic_key(topic))
        if there is None:
            answer.topics.append(topic)
            continue
        parts = {part.partition_index: part for part in (*there.partitions, *topic.partitions)}
        there.partitions = list(parts.values())
    return answer


def errors_in(answer: Any) -> set[int]:
    """The errors that an answer has anywhere; 0 is in it where it says nowhere that anything is wrong."""
    found: set[int] = set()
    left = [answer]
    while left:
        part = left.pop()
        error = getattr(part, "error_code", None)
        if error:
            found.add(int(error))
        for name in ("topics", "partitions", "groups", "results", "coordinators", "members", "responses"):
            more = getattr(part, name, None)
            if isinstance(more, list):
                left += more
    return found or {0}
