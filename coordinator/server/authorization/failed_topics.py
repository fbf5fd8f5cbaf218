"""Where an answer about offsets has the topics that failed before the group was asked: together, in the order of
the request, whether they are refused or not there. Source: Kafka's `OffsetCommitResponse.Builder`,
`OffsetDeleteResponse.Builder`, `KafkaApis.fetchOffsetsForGroup`.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from protocol.errors import ErrorCode

_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Key = Callable[[Any], Hashable]
"""What tells a topic of a request, or of its answer, from the others."""


def name_key(topic: Any) -> Hashable:
    """Where topics have names."""
    name: str = topic.name
    return name


def id_key(topic: Any) -> Hashable:
    """Where they have ids."""
    topic_id: bytes = topic.topic_id
    return topic_id


def places_of(asked: Iterable[Any], key: Key) -> dict[Hashable, int]:
    """Where each topic of a request was first named."""
    places: dict[Hashable, int] = {}
    for topic in asked:
        places.setdefault(key(topic), len(places))
    return places


def failed_and_others(
    refused: list[Any], answered: Iterable[Any], places: dict[Hashable, int], key: Key
) -> tuple[list[Any], list[Any]]:
    """The answers for topics that failed, in their order, and those of the group. In: what the guard refused; what
    the handler said of the others."""
    failed = list(refused)
    others: list[Any] = []
    for topic in answered:
        (failed if _is_not_there(topic) else others).append(topic)
    failed.sort(key=lambda topic: places[key(topic)])
    return failed, others


def _is_not_there(topic: Any) -> bool:
    return bool(topic.partitions) and topic.partitions[0].error_code in _NOT_THERE
