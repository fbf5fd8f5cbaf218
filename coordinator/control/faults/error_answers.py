"""The errors that faults put into responses of group APIs.

A request is split into the part that is refused and the rest, which is handled normally. The refusal is then
merged into the response. The same merge replaces parts of a response that exists already. No response is changed
in place, because the coordinator sends the same object to several members.
"""

from collections.abc import Callable, Collection
from copy import deepcopy
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import structs

from coordinator.group.group_request_rules import GROUP_REQUEST_RULES, build_group_error_response
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.error_response import ErrorLevel, build_error_response

PartitionPredicate = Callable[[str], bool]
"""Returns whether an error applies to a partition ("orders-0")."""
TopicName = Callable[[bytes], str | None]
TopicKey = Callable[[Any], object]

_TOPIC_IDS_SINCE: Final = 10
_REQUEST_LISTS: Final = {
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
    ApiKey.DELETE_GROUPS: "groups_names",
    ApiKey.FIND_COORDINATOR: "coordinator_keys",
    ApiKey.OFFSET_FETCH: "groups",
}
"""The request field that names several groups, by API."""
_RESPONSE_LISTS: Final = {
    ApiKey.DESCRIBE_GROUPS: ("groups", "group_id"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups", "group_id"),
    ApiKey.DELETE_GROUPS: ("results", "group_id"),
    ApiKey.FIND_COORDINATOR: ("coordinators", "key"),
    ApiKey.OFFSET_FETCH: ("groups", "group_id"),
}
"""The response field with one entry per group, and the field of the entry with the name of the group, by API."""


class SplitRequest(NamedTuple):
    """A split request: `part` is refused; `rest` is None if nothing remains."""

    part: Any
    rest: Any | None


def find_loading_error(key: int) -> ErrorCode:
    """Return the error of an API while a partition of groups is loading."""
    rules = GROUP_REQUEST_RULES.get(APIS[key].request)
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if rules is None else rules.loading_error


def split_request(
    key: int,
    request: Any,
    groups: Collection[str],
    partitions: PartitionPredicate | None,
    topic_name: TopicName,
) -> SplitRequest:
    """Split a request into the part about some groups (and optionally some partitions) and the rest.

    The request itself does not change.
    """
    field = _REQUEST_LISTS.get(ApiKey(key))
    if field is not None and getattr(request, field):
        return _split_groups(key, request, field, groups, partitions, topic_name)
    if partitions is None:
        return SplitRequest(request, None)
    return _split_partitions(request, partitions, topic_name)


def _split_groups(
    key: int,
    request: Any,
    field: str,
    groups: Collection[str],
    partitions: PartitionPredicate | None,
    topic_name: TopicName,
) -> SplitRequest:
    refused, others = [], []
    for entry in getattr(request, field):
        if _read_group_id(entry) not in groups:
            others.append(entry)
        elif partitions is None or key != ApiKey.OFFSET_FETCH:
            refused.append(entry)
        else:
            part, rest = _split_partitions(entry, partitions, topic_name)
            refused += [part] if part.topics else []
            others += [] if rest is None else [rest]
    rest_request = structs.replace(request, **{field: others}) if others else None
    return SplitRequest(structs.replace(request, **{field: refused}), rest_request)


def _read_group_id(entry: Any) -> str:
    return str(getattr(entry, "group_id", entry))


def _split_partitions(request: Any, is_chosen: PartitionPredicate, topic_name: TopicName) -> SplitRequest:
    refused, others = [], []
    for topic in request.topics or ():
        name = getattr(topic, "name", "") or topic_name(getattr(topic, "topic_id", b"")) or ""
        field = "partition_indexes" if hasattr(topic, "partition_indexes") else "partitions"
        chosen: list[Any] = []
        left: list[Any] = []
        for part in getattr(topic, field):
            (chosen if is_chosen(f"{name}-{_index(part)}") else left).append(part)
        if chosen:
            refused.append(structs.replace(topic, **{field: chosen}))
        if left:
            others.append(structs.replace(topic, **{field: left}))
    rest = structs.replace(request, topics=others) if others or request.topics is None else None
    return SplitRequest(structs.replace(request, topics=refused), rest)


def _index(part: Any) -> int:
    return int(getattr(part, "partition_index", part))


def build_fault_response(request: Any, version: int, error: ErrorCode, *, is_by_partition: bool) -> Any:
    """Build the response with which a fault refuses a request or a part of one.

    Args:
        request: the refused request or part.
        version: the API version of the request.
        error: the error of the fault.
        is_by_partition: whether to set the error for each partition even if it could be set for the group.
    """
    if is_by_partition:
        return build_error_response(request, version, error, level=ErrorLevel.INNERMOST)
    if type(request) in GROUP_REQUEST_RULES:
        return build_group_error_response(request, version, error)
    return build_error_response(request, version, error)


def merge_error_response(
    key: int,
    version: int,
    answer: Any,
    refusal: Any,
    asked_groups: Collection[str],
    *,
    is_by_partition: bool,
) -> Any:
    """Return a response in which the refused part replaces the actual one, in the order of the request."""
    topic_key = attrgetter("topic_id" if version >= _TOPIC_IDS_SINCE else "name")
    names = _RESPONSE_LISTS.get(ApiKey(key))
    if names is not None and getattr(refusal, names[0]):
        return _merge_groups(answer, refusal, names, asked_groups, topic_key if is_by_partition else None)
    if key != ApiKey.OFFSET_COMMIT and not is_by_partition:
        return refusal
    return _merge_topics(answer, refusal, topic_key)


def _merge_groups(
    answer: Any, refusal: Any, names: tuple[str, str], asked: Collection[str], topic_key: TopicKey | None
) -> Any:
    field, name = names
    entries = {getattr(entry, name): entry for entry in getattr(answer, field)}
    for entry in getattr(refusal, field):
        there = entries.get(getattr(entry, name))
        if there is not None and topic_key is not None:
            entry = _merge_topics(there, entry, topic_key)
        entries[getattr(entry, name)] = entry
    order = {group_id: number for number, group_id in enumerate(dict.fromkeys(asked))}
    found = sorted(entries.values(), key=lambda entry: order.get(getattr(entry, name), len(order)))
    return structs.replace(answer, **{field: found})


def _merge_topics(answer: Any, refusal: Any, topic_key: TopicKey) -> Any:
    """Return a copy of a response with the refused partitions. A response with a top-level error is returned
    unchanged."""
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


def find_errors(answer: Any) -> set[int]:
    """Return the error codes at all levels of a response; they contain 0 if no level has an error."""
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
